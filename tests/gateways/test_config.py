"""load_gateways: what a file says is what one gets, and every mistake is named."""

from __future__ import annotations

import json
import string
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st
from runjournal import (
    CallableGateway,
    JsonLinesGateway,
    RunStoreError,
    WebhookGateway,
    load_gateways,
    verify_signature,
)
from runjournal.adapters.gateways.config import WebhookTable

HOOK = {"type": "webhook", "url": "https://receiver.test/x", "secret_env": "HOOK_SECRET"}


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hush")
    monkeypatch.setenv("HOOK_AUTH", "Bearer hush")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("MISSING", raising=False)
    monkeypatch.chdir(tmp_path)
    # `call` puts the working directory on the path; keep that to the one test.
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_file_with_all_kinds(
    tmp_path: Path, receiver: Any, delivery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "etc" / "gateways.toml"
    config.parent.mkdir()
    (tmp_path / "crm_of_the_test.py").write_text("seen = []\ndeliver = seen.append\n")
    (config.parent / "old").write_text("old-secret\r\n")
    (config.parent / "new").write_text("new-secret\n")
    monkeypatch.setenv("HOOK_URL", receiver.url)
    config.write_text(
        """
        [gateways.archive]
        type = "jsonl"
        path = "results.jsonl"

        [gateways.billing]
        type = "webhook"
        url_env = "HOOK_URL"
        secret_file = ["new", "old"]
        timeout = 5
        connect_timeout = 0.5
        allow_private = true
        headers = { X-Team = "ops" }
        headers_env = { Authorization = "HOOK_AUTH" }

        [gateways."*"]
        type = "python"
        call = "crm_of_the_test:deliver"
        """
    )
    gateways = load_gateways(config)
    assert list(gateways) == ["archive", "billing", "*"]
    for gateway in gateways.values():
        gateway.deliver(delivery())
    (line,) = (config.parent / "results.jsonl").read_text().splitlines()
    assert json.loads(line) == delivery().as_json()
    (received,) = receiver.received
    for secret in ("old-secret", "new-secret"):
        assert verify_signature(received.body, received.headers, secret)
    assert (received.headers["X-Team"], received.headers["Authorization"]) == ("ops", "Bearer hush")
    import crm_of_the_test  # type: ignore[import-not-found]

    assert crm_of_the_test.seen == [delivery()]


def test_a_mapping_will_do_and_paths_begin_here(tmp_path: Path, delivery: Any) -> None:
    (gateway,) = load_gateways({"gateways": {"a": {"type": "jsonl", "path": "out"}}}).values()
    assert type(gateway) is JsonLinesGateway
    gateway.deliver(delivery())
    assert (tmp_path / "out").exists()


def test_stdout_is_no_path(capfd: pytest.CaptureFixture[str], delivery: Any) -> None:
    (gateway,) = load_gateways({"gateways": {"a": {"type": "jsonl", "path": "-"}}}).values()
    gateway.deliver(delivery())
    assert json.loads(capfd.readouterr().out) == delivery().as_json()


def test_an_authority_of_ones_own(tmp_path: Path, authority: trustme.CA) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (gateway,) = load_gateways({"gateways": {"a": {**HOOK, "ca_file": "ca.pem"}}}).values()
    assert type(gateway) is WebhookGateway


def without(key: str, **more: Any) -> dict[str, Any]:
    return {k: v for k, v in {**HOOK, **more}.items() if k != key}


#: A table, and what the refusal names besides the gateway.
MISTAKES: list[tuple[Any, str]] = [
    (5, "must be a table"),
    ({}, "type must be one of jsonl, python, webhook"),
    ({"type": "smtp"}, "'smtp'"),
    ({"type": ["jsonl"]}, "type"),
    ({"type": "jsonl"}, "path"),
    ({"type": "jsonl", "path": ""}, "path"),
    ({"type": "jsonl", "path": "a\0b"}, "path"),
    ({"type": "jsonl", "path": 5}, "path"),
    ({"type": "jsonl", "path": "x", "mode": 1}, "mode: there is no such key"),
    ({"type": "python", "call": "json"}, "call"),
    ({"type": "python", "call": "json:nothing"}, "call"),
    ({"type": "python", "call": "no_such_module_anywhere:f"}, "call"),
    ({**HOOK, "secret": "hush"}, "secret_env"),
    (without("secret_env"), "secret_env"),
    ({**HOOK, "secret_file": "x"}, "secret_file"),
    ({**HOOK, "secret_env": "MISSING"}, "secret_env: the environment variable 'MISSING'"),
    ({**HOOK, "secret_env": "EMPTY"}, "secret_env"),
    ({**HOOK, "secret_env": "A\0B"}, "secret_env"),
    ({**HOOK, "secret_env": ["HOOK_SECRET", "MISSING"]}, "MISSING"),
    ({**HOOK, "secret_env": []}, "secret_env"),
    (without("secret_env", secret_file="no-such-file"), "secret_file"),
    (without("secret_env", secret_file="."), "secret_file"),
    (without("secret_env", secret_file="a\0b"), "secret_file"),
    (without("url"), "url_env"),
    ({**HOOK, "url_env": "HOOK_SECRET"}, "url_env"),
    (without("url", url_env="MISSING"), "url_env"),
    ({**HOOK, "url": "https://me:hush@receiver.test/"}, "url"),
    ({**HOOK, "url": "https://receiver.test/?token=hush"}, "url_env"),
    ({**HOOK, "url": "https://hooks.slack.com/services/hush"}, "url_env"),
    ({**HOOK, "url": "receiver.test/hush"}, "url"),
    ({**HOOK, "url": "http://127.0.0.1/hush"}, "allow_private"),
    ({**HOOK, "allow_private": "yes"}, "allow_private"),
    ({**HOOK, "timeout": 0}, "timeout"),
    ({**HOOK, "timeout": 301}, "timeout"),
    ({**HOOK, "timeout": float("inf")}, "timeout"),
    ({**HOOK, "timeout": float("nan")}, "timeout"),
    ({**HOOK, "timeout": "5"}, "timeout"),
    ({**HOOK, "timeout": True}, "timeout"),
    ({**HOOK, "connect_timeout": -1}, "connect_timeout"),
    ({**HOOK, "headers": {"authorization": "hush"}}, "headers_env"),
    ({**HOOK, "headers": {"X-Api-Key": "hush"}}, "headers_env"),
    ({**HOOK, "headers": {"X": 5}}, "headers"),
    ({**HOOK, "headers_env": {"X": "MISSING"}}, "headers_env.X"),
    ({**HOOK, "ca_file": "no-such-file"}, "ca_file"),
    ({**HOOK, "ca_file": "empty"}, "ca_file"),
]


@pytest.mark.parametrize(("table", "named"), MISTAKES, ids=[str(n) for n in range(len(MISTAKES))])
def test_a_mistake_is_refused_with_the_gateway_and_the_key(
    table: Any, named: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(RunStoreError) as caught:
        load_gateways({"gateways": {"billing": table}})
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")
    assert "gateway 'billing'" in caught.value.message
    assert named in caught.value.message
    assert "hush" not in caught.value.message


@pytest.mark.parametrize(
    "source",
    [None, 5, b"x", [], {}, {"gateways": {}}, {"gateways": []}, {"gateways": {"a": HOOK}, "x": 1}]
    + [{"gateways": {name: HOOK}} for name in ("", " a", "a\nb", 5, None, "ghp_hushhushhush")],
)
def test_what_is_no_configuration_is_refused(source: Any) -> None:
    with pytest.raises(RunStoreError) as caught:
        load_gateways(source)
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")
    assert "hush" not in caught.value.message


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[gateways",
        b"\xff\xfe",
        b"a = " + b"[" * 5000,
        b"a = " + b"9" * 5000,
        b"[gateways.a]\ntype='jsonl'\npath='x'\npath='y'",
        b"[gateways.a]\ntype='smtp'",
    ],
)
def test_a_file_that_is_wrong_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "gateways.toml"
    path.write_bytes(content)
    with pytest.raises(RunStoreError, match=r"gateways\.toml") as caught:
        load_gateways(path)
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")


@pytest.mark.parametrize("path", ["no-such-file", ".", "a\0b", "x" * 5000])
def test_a_file_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(RunStoreError) as caught:
        load_gateways(path)
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")


KEYS = st.sampled_from([*WebhookTable.model_fields, "path", "call", "secret", "other"])
#: No module that does something when it is loaded has such a name.
NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=3).map("no_module_".__add__)
VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | NAMES
    | st.sampled_from(
        ["jsonl", "webhook", "python", "-", "json:dumps", "a:b", "HOOK_SECRET", "MISSING", 10.0]
    )
    | st.sampled_from(["https://receiver.test/", "http://[", "https://a@b/", "http://10.0.0.1/"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text() | KEYS, inner, max_size=2)
    ),
    max_leaves=4,
)
TABLES: Any = st.dictionaries(KEYS | st.text() | st.integers(), VALUES, max_size=4)
TYPED = st.tuples(TABLES, st.sampled_from([{"type": "jsonl"}, {"type": "python"}, HOOK])).map(
    lambda pair: {**pair[1], **pair[0]}
)


def loaded_or_refused(source: Any) -> dict[str, Any]:
    """The gateways; none if it was refused as it should be."""
    try:
        return dict(load_gateways(source))
    except RunStoreError as refused:
        cause = (refused.code, refused.reason)
    assert cause == ("RUN_VALIDATION_ERROR", "argument")
    return {}


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text() | st.sampled_from(["*", "a"]), TYPED | VALUES, max_size=2))
def test_any_tables_are_gateways_or_refused(tables: Any) -> None:
    gateways = loaded_or_refused({"gateways": tables})
    assert set(gateways) in (set(tables), set())
    kinds = (CallableGateway, JsonLinesGateway, WebhookGateway)
    assert all(isinstance(gateway, kinds) for gateway in gateways.values())


TOML = st.sampled_from(
    ["[gateways.a]\n", "type = 'jsonl'\n", "path = '-'\n", "[[gateways]]\n", "gateways = 5\n", "["]
)


@settings(max_examples=60, deadline=None)
@given(content=st.binary() | st.lists(TOML).map(lambda parts: "".join(parts).encode()))
def test_any_file_is_gateways_or_refused(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    loaded_or_refused(path)
