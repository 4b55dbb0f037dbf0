"""The bytes of a delivery: the same in every attempt."""

from __future__ import annotations

import orjson

from ...domain.gateway import DeliveryRequest


def encoded(request: DeliveryRequest) -> bytes:
    """The request's JSON, without a line break in it."""
    return orjson.dumps(request.as_json())
