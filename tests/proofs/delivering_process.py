"""A delivery process that is there to be killed: URL PORT SECRET OWNER TTL SPOT.

Posts through a webhook with a secret of its own. At its SPOT ("claimed": before it sends, "sent":
before it reports) it says so on stdout and waits for its end; "none": it says that it is ready, and
goes on until its stdin is closed. Logs to stderr.
"""

from __future__ import annotations

import logging
import sys
import threading

from runjournal import DeliveryPolicy, DeliveryRequest, DeliveryService, open_journal
from runjournal.adapters.gateways.webhook import WebhookGateway


class Pausing:
    """A gateway that stops at the spot at which its process is to be killed."""

    def __init__(self, gateway: WebhookGateway, spot: str) -> None:
        self._gateway = gateway
        self._spot = spot

    def deliver(self, request: DeliveryRequest) -> None:
        self._reach("claimed", request)
        self._gateway.deliver(request)
        self._reach("sent", request)

    def _reach(self, spot: str, request: DeliveryRequest) -> None:
        if spot == self._spot:
            print(request.invocation_id, flush=True)
            threading.Event().wait()


def main(url: str, port: str, secret: str, owner: str, ttl: str, spot: str) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.DEBUG)
    # The path of a webhook may be a secret as well.
    webhook = WebhookGateway(
        f"http://127.0.0.1:{port}/{secret}?token={secret}",
        secret=secret,
        headers={"Authorization": f"Bearer {secret}"},
        timeout=5,
        allow_private=True,
    )
    interrupt = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        interrupt.set()

    threading.Thread(target=until_told, daemon=True).start()
    policy = DeliveryPolicy(first_pause=0.01, longest_pause=0.05, retry_ambiguous=True)
    with open_journal(url) as journal:
        if spot == "none":
            print("ready", flush=True)
        DeliveryService(
            journal,
            {"*": Pausing(webhook, spot)},
            policy,
            owner=owner,
            attempt_ttl=float(ttl),
            concurrency=1,
        ).run(interrupt, poll=0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
