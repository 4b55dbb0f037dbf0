"""Appends deliveries to a file, as one of several processes: PATH NAME COUNT SIZE."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from runjournal import DeliveryRequest, JsonLinesGateway

if __name__ == "__main__":
    path, name, count, size = sys.argv[1:]
    gateway = JsonLinesGateway(path)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        gateway.deliver(
            DeliveryRequest(
                f"{name}-{number}",
                "run",
                "archive",
                "k",
                "completed",
                "ok",
                None,
                name * int(size),
                datetime.now(UTC),
            )
        )
