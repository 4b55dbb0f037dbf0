"""The role that prunes has the rights that docs/prune.md names, and needs each of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest
import runjournal
from psycopg.conninfo import conninfo_to_dict
from runjournal import RunStoreError, open_journal

from .conftest import deliver, end, later

ROOT = Path(runjournal.__file__).parent
ROLE = f"journal_keeper_{os.getpid()}"


def grants() -> list[str]:
    """What the pages grant to the role of workers, and on top of that to the one that prunes."""
    told = [
        *re.findall(r"^(GRANT .+ TO) journal_app;$", page("postgres.md"), re.MULTILINE),
        *re.findall(r"^(GRANT .+ TO) journal_keeper;$", page("prune.md"), re.MULTILINE),
    ]
    return [f"{grant} {ROLE}".replace("journal.", "public.") for grant in told]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{ROLE}'".encode())
        yield conn
        conn.execute(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}".encode())


def as_keeper(url: str) -> str:
    parts = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    parts |= {"user": ROLE, "password": ROLE}
    return f"postgresql://{urlsplit(url).path}?{urlencode(parts)}"


@pytest.mark.parametrize("left_out", [None, "DELETE ON", "INSERT ON public.tombstones"])
def test_rights(admin: psycopg.Connection[Any], postgres_url: str, left_out: str | None) -> None:
    told = grants()
    assert len(told) == 7
    for grant in told:
        if left_out is None or left_out not in grant:
            admin.execute(grant.encode())
    with open_journal(postgres_url) as journal:
        end(journal, "run", delivery_ref="inbox")
        deliver(journal)
    with open_journal(as_keeper(postgres_url)) as journal:
        if left_out is None:
            assert journal.prune(later()).runs == 1
            return
        with pytest.raises(RunStoreError) as caught:
            journal.prune(later())
        assert isinstance(caught.value.__cause__, psycopg.errors.InsufficientPrivilege)
        assert journal.get("run") is not None
