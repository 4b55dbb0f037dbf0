"""No credential gets into the journal by way of a delivery_ref."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.cli.main import app
from runjournal.domain.checks import check_delivery_ref
from runjournal.domain.credentials import looks_like_credentials
from typer.testing import CliRunner

#: Put together here, so that nobody's scan for secrets finds them in this file.
HUSH = "hush0hush1hush2hush3hush4hush5hush6"
CREDENTIALS = [
    f"https://me:{HUSH}@receiver.test/hook",
    f"https://{HUSH}@receiver.test",
    f"postgres://me:pass/{HUSH}@db.test/x",
    f"https://receiver.test/hook?token={HUSH}",
    f"https://receiver.test/hook?a=1&api_key={HUSH}",
    f"https://receiver.test/hook?apiKey={HUSH}",
    f"https://receiver.test/hook?key={HUSH}",
    f"https://receiver.test/hook?sig={HUSH}",
    f"https://receiver.test/hook?PASSWORD={HUSH}",
    f"https://receiver.test/hook?client-secret={HUSH}",
    f"https://receiver.test/hook?X-Amz-Signature={HUSH}",
    f"https://receiver.test/hook?%74oken={HUSH}",
    f"https://receiver.test/hook#access_token={HUSH}",
    f"https://hooks.slack.com/services/T0/B0/{HUSH}",
    f"hooks.slack.com/services/T0/B0/{HUSH}",
    f"https://discord.com/api/webhooks/1/{HUSH}",
    f"https://discordapp.com/api/v10/webhooks/1/{HUSH}",
    f"https://api.telegram.org/bot1:{HUSH}/sendMessage",
    f"https://open.feishu.cn/open-apis/bot/v2/hook/{HUSH}",
    f"Bearer {HUSH}",
    f"  bearer {HUSH} ",
    f"Authorization: Basic {HUSH}",
    *(f"{prefix}{HUSH}" for prefix in ("ghp_", "gho_", "github_pat_", "glpat-", "sk-", "sk-proj-")),
    *(f"xox{kind}-{HUSH}" for kind in "abps"),
    *(f"{kind}_live_{HUSH}" for kind in ("sk", "rk")),
    f"AKIA{HUSH.upper()[:16]}",
    f"AIza{HUSH}",
    f"eyJ{HUSH}.eyJ{HUSH}.{HUSH}",
    f"-----BEGIN PRIVATE KEY-----\n{HUSH}",
    f"crm ghp_{HUSH}\n",
    f"token=ghp_{HUSH}" + "x" * 300,
]
NAMES = [
    "hook",
    "billing.eu-1",
    "tenant:42/finance",
    "Kunde/Münster",
    "reply to alice@example.com",
    "d9428888-122b-11e1-b85c-61cd3cbb3210",
    "a" * 64,
    "/var/out/results.jsonl",
    "s3://bucket/x",
    "s3://bucket/a@b",
    "https://receiver.test/hook",
    "https://receiver.test:8080/@alice",
    "https://receiver.test/?monkey=1&keyword=2&design=3&author=4&compass=5",
    "basic",
    "bearer-team",
    "sk-bratislava-warehouse-7",
    "task-42",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_pass(name: str) -> None:
    assert check_delivery_ref(name) == name


@given(st.uuids().map(str) | st.binary(min_size=16, max_size=32).map(bytes.hex))
def test_ids_pass(name: str) -> None:
    assert check_delivery_ref(name) == name


@pytest.mark.parametrize("text", CREDENTIALS)
def test_credentials_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(RunStoreError) as caught:
        check_delivery_ref(text)
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "credentials")
    assert HUSH[:6].lower() not in str(caught.value).lower()


def test_looking_takes_no_time() -> None:
    """A text made to be looked through again and again would take minutes."""
    for part in ("?a", "?key-", "sk-", "sk-a-", "://", "://x:", "eyJ", "basic:", "%", "?token"):
        looks_like_credentials(part * 200_000)


def test_nothing_of_it_reaches_the_store(journal: Journal) -> None:
    for text in CREDENTIALS:
        with pytest.raises(RunStoreError) as caught:
            journal.ledger().start("run", delivery_ref=text)
        assert caught.value.reason == "credentials"
    assert journal.get("run") is None
    assert list(journal.events("run")) == []


def test_nothing_of_it_reaches_a_file_or_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNJOURNAL_DB", raising=False)
    open_journal("sqlite:///runjournal.db").close()
    for text in CREDENTIALS:
        result = CliRunner().invoke(app, ["start", "run", f"--delivery-ref={text}"])
        assert result.exit_code == 2
        assert result.stderr.startswith("runjournal: RUN_VALIDATION_ERROR/credentials: ")
        assert result.stderr.count("\n") == 1
        assert HUSH[:6].lower() not in result.output.lower()
    for file in tmp_path.iterdir():
        assert HUSH[:6].lower().encode() not in file.read_bytes().lower(), file
