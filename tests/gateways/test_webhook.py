"""WebhookGateway against receivers on this machine: what is sent, and what each answer means."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import orjson
import pytest
from runjournal import (
    DeliveryAmbiguous,
    DeliveryFailed,
    DeliveryRefused,
    RunStoreError,
    WebhookGateway,
    verify_signature,
)
from runjournal.adapters.gateways.webhook import retry_after
from runjournal.domain.gateway import DeliveryError

SECRET = "the-secret-of-the-tests"

Gateways = Callable[..., WebhookGateway]


def test_what_is_sent(receiver: Any, webhook: Gateways, delivery: Any) -> None:
    webhook(receiver.url, headers={"Authorization": "Bearer x"}).deliver(delivery())
    (received,) = receiver.received
    assert receiver.url.endswith(received.path)
    assert orjson.loads(received.body) == delivery().as_json()
    assert received.headers["Content-Type"] == "application/json"
    assert received.headers["Idempotency-Key"] == delivery().invocation_id
    assert received.headers["Authorization"] == "Bearer x"
    assert received.headers["Host"] == receiver.url.split("/")[2]
    assert abs(int(received.headers["Runjournal-Timestamp"]) - time.time()) < 60
    assert verify_signature(received.body, received.headers, SECRET)
    assert not verify_signature(received.body + b" ", received.headers, SECRET)


def test_a_repetition_has_the_same_body_and_key(
    receiver: Any, webhook: Gateways, delivery: Any
) -> None:
    for _ in range(2):
        webhook(receiver.url).deliver(delivery())
    first, second = receiver.received
    assert first.body == second.body
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_both_secrets_sign_while_one_is_changed(
    receiver: Any, webhook: Gateways, delivery: Any
) -> None:
    webhook(receiver.url, secret=["new", b"old"]).deliver(delivery())
    (received,) = receiver.received
    assert received.headers["Runjournal-Signature"].count("v1=") == 2
    for secret in ("new", "old"):
        assert verify_signature(received.body, received.headers, secret)
    assert not verify_signature(received.body, received.headers, "other")


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_delivered(receiver: Any, webhook: Gateways, delivery: Any, status: int) -> None:
    receiver.status = status
    webhook(receiver.url).deliver(delivery())


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_later_is_failed(receiver: Any, webhook: Gateways, delivery: Any, status: int) -> None:
    receiver.status, receiver.headers = status, {"Retry-After": "17"}
    with pytest.raises(DeliveryFailed) as caught:
        webhook(receiver.url).deliver(delivery())
    assert str(caught.value) == f"127.0.0.1 answered {status}"
    assert caught.value.retry_after == 17


@pytest.mark.parametrize("status", [400, 401, 404, 409, 410, 413, 422, 499])
def test_no_is_refused(receiver: Any, webhook: Gateways, delivery: Any, status: int) -> None:
    receiver.status = status
    with pytest.raises(DeliveryRefused, match=rf"^127\.0\.0\.1 answered {status}$"):
        webhook(receiver.url).deliver(delivery())


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
@pytest.mark.parametrize("location", ["", "not a url", "http://[", "{}"])
def test_redirects_are_refused_and_not_followed(
    receiver: Any, webhook: Gateways, delivery: Any, status: int, location: str
) -> None:
    receiver.status, receiver.headers = status, {"Location": location.format(receiver.url)}
    with pytest.raises(DeliveryRefused, match="redirects are not followed"):
        webhook(receiver.url).deliver(delivery())
    assert len(receiver.received) == 1


def test_no_credential_in_errors_or_logs(
    receiver: Any, answering: Any, webhook: Gateways, delivery: Any, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    texts = []
    receiver.headers = {"Location": receiver.url}
    path = receiver.url.split("/", 3)[3]
    urls = [receiver.url, answering(lambda c: c.recv(65536)), f"http://127.0.0.1:1/{path}"]
    for url in urls:
        for status in (204, 302, 404, 503):
            receiver.status = status
            gateway = webhook(url, headers={"Authorization": "Bearer opens-the-door"})
            texts.append(repr(gateway))
            try:
                gateway.deliver(delivery())
            except DeliveryError:
                texts.append(traceback.format_exc())
    text = "\n".join(texts) + caplog.text
    assert "127.0.0.1 answered 503" in text
    for secret in (SECRET, "opens", "T0", "token"):
        assert secret not in text


def test_the_environment_is_not_asked(
    receiver: Any, webhook: Gateways, delivery: Any, monkeypatch: Any, tmp_path: Any
) -> None:
    """Neither for proxies nor for passwords."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password hush\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    webhook(receiver.url).deliver(delivery())
    assert "Authorization" not in receiver.received[0].headers


def test_several_threads_deliver_at_once(receiver: Any, webhook: Gateways, delivery: Any) -> None:
    gateway = webhook(receiver.url)
    threads = [
        threading.Thread(target=gateway.deliver, args=[delivery(invocation_id=f"delivery-{n}")])
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = sorted(r.headers["Idempotency-Key"] for r in receiver.received)
    assert keys == [f"delivery-{n}" for n in range(8)]


def test_another_transport_may_be_given(delivery: Any) -> None:
    """One of httpx's own; its errors mean the same, and their texts are not taken over."""
    seen: list[httpx.Request] = []
    failures: list[Exception] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if failures:
            raise failures.pop()
        return httpx.Response(200)

    gateway = WebhookGateway(
        "https://receiver.test/x", secret=SECRET, transport=httpx.MockTransport(answer)
    )
    gateway.deliver(delivery())
    assert verify_signature(seen[0].content, seen[0].headers, SECRET)
    assert seen[0].extensions["timeout"]["connect"] == 5.0
    for error, expected in (
        (httpx.ConnectError("to http://me:hush@proxy"), DeliveryFailed),
        (httpx.ProxyError("to http://me:hush@proxy"), DeliveryFailed),
        (httpx.WriteError("hush"), DeliveryAmbiguous),
        (httpx.ReadTimeout("hush"), DeliveryAmbiguous),
    ):
        failures.append(error)
        with pytest.raises(expected) as caught:
            gateway.deliver(delivery())
        assert "hush" not in str(caught.value)


def later(delta: timedelta) -> str:
    return format_datetime(datetime.now(UTC) + delta, usegmt=True)


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("0", 0, 0),
        ("120", 120, 120),
        ("86401", 86400, 86400),
        ("9" * 5000, 86400, 86400),
        (timedelta(seconds=100), 50, 100),
        (timedelta(days=30), 86400, 86400),
        (timedelta(days=-1), 0, 0),
    ],
)
def test_retry_after_is_taken_within_bounds(
    value: str | timedelta, least: float, most: float
) -> None:
    seconds = retry_after(value if isinstance(value, str) else later(value))
    assert seconds is not None
    assert least <= seconds <= most


@pytest.mark.parametrize(
    "value",
    [None, "", "soon", "-1", "1.5", "1e3", "nan", "²", "\u0661", "17, 18", "Fri, 99 Foo 1", "Mon"],
)
def test_retry_after_that_makes_no_sense_is_ignored(value: str | None) -> None:
    assert retry_after(value) is None


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("https://me:hush@receiver.test/", {}),
        ("https://hush@receiver.test/", {}),
        ("ftp://receiver.test/hush", {}),
        ("receiver.test/hush", {}),
        ("https:///hush", {}),
        ("https://receiver.test:99999/hush", {}),
        ("https://receiver.test:hush/", {}),
        ("https://xn--/hush", {}),
        ("https://[hush]/", {}),
        ("https://receiver.test/\0hush", {}),
        (b"https://receiver.test/hush", {}),
        (None, {}),
        ("https://receiver.test/", {"secret": ""}),
        ("https://receiver.test/", {"secret": []}),
        ("https://receiver.test/", {"secret": ["hush", ""]}),
        ("https://receiver.test/", {"secret": "hush\ud800"}),
        ("https://receiver.test/", {"secret": 5}),
        ("https://receiver.test/", {"timeout": 0}),
        ("https://receiver.test/", {"timeout": 301}),
        ("https://receiver.test/", {"timeout": float("nan")}),
        ("https://receiver.test/", {"connect_timeout": -1}),
        ("https://receiver.test/", {"headers": ["hush"]}),
        ("https://receiver.test/", {"headers": {"X": "hush\r\nY: z"}}),
        ("https://receiver.test/", {"headers": {"X": "hush "}}),
        ("https://receiver.test/", {"headers": {"X": "hüsh"}}),
        ("https://receiver.test/", {"headers": {"X Y": "hush"}}),
        ("https://receiver.test/", {"headers": {5: "hush"}}),
        ("https://receiver.test/", {"headers": {"idempotency-key": "hush"}}),
        ("https://receiver.test/", {"headers": {"Runjournal-Signature": "hush"}}),
        ("https://receiver.test/", {"allow_private": 1}),
    ],
)
def test_what_cannot_be_is_refused_at_once(url: Any, more: Any) -> None:
    with pytest.raises(RunStoreError) as caught:
        WebhookGateway(url, **{"secret": SECRET, **more})
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")
    assert "hush" not in str(caught.value)


def test_without_httpx_the_extra_is_named() -> None:
    script = (
        "import sys; sys.modules['httpx'] = None\n"
        "import runjournal\n"
        "assert runjournal.verify_signature and runjournal.load_gateways\n"
        "try:\n    runjournal.WebhookGateway\n"
        "except runjournal.RunStoreError as e: print(e.code, e.reason, e)\n"
        "table = {'type': 'webhook', 'url': 'https://a.test/', 'secret_env': 'PATH'}\n"
        "try:\n    runjournal.load_gateways({'gateways': {'crm': table}})\n"
        "except runjournal.RunStoreError as e: print(e.code, e.reason, e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first.startswith("RUN_VALIDATION_ERROR argument a webhook needs httpx")
    assert "runjournal[webhook]" in first
    assert "gateway 'crm'" in second
    assert "runjournal[webhook]" in second
