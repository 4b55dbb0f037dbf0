"""Whatever a file of gateways holds, there are gateways, or one refusal without a secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal import RunStoreError, load_gateways

from .generating import altered, bounded, damaged, json_values, texts

SECRET = "whsec-fuzzed-0123456789abcdef"
GOOD: dict[str, Any] = {
    "gateways": {
        "archive": {"type": "jsonl", "path": "results.jsonl"},
        "code": {"type": "python", "call": "json:dumps"},
        "*": {
            "type": "webhook",
            "url": "https://billing.example/hook",
            "secret_env": ["FUZZ_SECRET", "FUZZ_SECRET"],
            "headers": {"X-Team": "a"},
            "headers_env": {"Authorization": "FUZZ_SECRET"},
            "timeout": 3,
            "connect_timeout": 1.5,
            "allow_private": False,
        },
    }
}
FILE = f"""
[gateways.archive]
type = "jsonl"
path = "results.jsonl"

[gateways."*"]
type = "webhook"
url = "https://billing.example/hook"
secret_file = "secret"
headers = {{ X-Team = "a" }}
timeout = 3.5
allow_private = true
# {SECRET}
""".encode()


@pytest.fixture(autouse=True)
def _secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUZZ_SECRET", SECRET)
    (tmp_path / "secret").write_text(SECRET)


def loads(source: str | Path | Mapping[str, Any]) -> bool:
    """Whether gateways come of it."""
    try:
        made = load_gateways(source)
    except RunStoreError as error:
        assert (error.code, error.reason) == ("RUN_VALIDATION_ERROR", "argument"), error
        assert SECRET not in str(error)
        return False
    assert made
    assert SECRET not in repr(made)
    return True


@bounded(100)
@given(data=st.data())
def test_mapping_with_a_value_changed(data: st.DataObject) -> None:
    changed = data.draw(altered(GOOD))
    loads(changed if isinstance(changed, dict) else {"gateways": changed})


@bounded(80)
@given(table=st.dictionaries(st.sampled_from(sorted(GOOD["gateways"]["*"])), json_values))
def test_any_webhook(table: dict[str, Any]) -> None:
    loads({"gateways": {"any": {"type": "webhook", **table}}})


@bounded(80)
@given(url=texts | st.from_regex(r"https?://[^/]{0,12}(:[0-9]{0,6})?(/.{0,9})?", fullmatch=True))
def test_any_url(url: str) -> None:
    table = {"type": "webhook", "url": url, "secret_env": "FUZZ_SECRET"}
    loads({"gateways": {"any": table}})


@bounded(100)
@given(content=damaged(FILE) | st.binary(max_size=100))
def test_damaged_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "gateways.toml"
    path.write_bytes(content)
    loads(path)


@bounded(30)
@given(path=texts)
def test_any_path(path: str) -> None:
    loads(path)


def test_what_was_not_changed_loads(tmp_path: Path) -> None:
    (tmp_path / "gateways.toml").write_bytes(FILE)
    assert loads(tmp_path / "gateways.toml")
    assert loads(GOOD)
