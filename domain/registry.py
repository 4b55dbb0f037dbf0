"""The closed registry of topics, and the upcasters that lead from old schema versions to new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from .errors import RUN_INTEGRITY_ERROR, RunStoreError
from .events import Event

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


class EventRegistry:
    """Which topics can be read, and how.

    events     the event classes, each with a `topic` and a `schema_version`
    upcasters  (topic, version) -> a function from that version's fields to the next version's
    aliases    old topic -> topic now in use

    Raises RUN_INTEGRITY_ERROR / missing_upcaster when a chain has a gap, so that a deployment
    that could not read its own past does not start (test_case_37).
    """

    def __init__(
        self,
        events: Iterable[type[Event]],
        upcasters: Mapping[tuple[str, int], Upcaster] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self._events: dict[str, type[Event]] = {}
        for event in events:
            if self._events.setdefault(event.topic, event) is not event or not event.topic:
                raise ValueError(f"{event.__name__}: topic {event.topic!r} is empty or taken")
        self._upcasters = dict(upcasters or {})
        self._aliases = dict(aliases or {})
        for topic, event in self._events.items():
            for version in range(1, event.schema_version):
                if (topic, version) not in self._upcasters:
                    raise RunStoreError(
                        RUN_INTEGRITY_ERROR,
                        "missing_upcaster",
                        f"no upcaster leads from {topic} version {version} to {version + 1}, "
                        f"and the code is at version {event.schema_version}",
                    )

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self._events)

    def stored_topics(self, topics: Iterable[str]) -> tuple[str, ...]:
        """These topics with the aliases under which older events of theirs are stored."""
        wanted = tuple(topics)
        return wanted + tuple(old for old, now in self._aliases.items() if now in wanted)

    def build(self, stream: str, version: int, topic: str, fields: dict[str, Any]) -> Event:
        """The event from its stored fields, brought up to the code's schema version.

        Raises RUN_INTEGRITY_ERROR: unknown_topic, newer_event, or unreadable_event when the fields
        do not fit. Unknown fields never vanish silently: they are refused.
        """
        event = self._events.get(self._aliases.get(topic, topic))
        where = f"event {version} of stream {stream!r}"
        if event is None:
            raise _integrity("unknown_topic", f"{where} has the unknown topic {topic!r}")
        stored = fields.pop("schema_version", None)
        if type(stored) is not int or stored < 1:
            raise _integrity("unreadable_event", f"{where} ({topic}) has no schema version")
        if stored > event.schema_version:
            raise _integrity(
                "newer_event",
                f"{where} is {topic} version {stored}; this code reads up to "
                f"{event.schema_version}",
            )
        try:
            for old in range(stored, event.schema_version):
                fields = self._upcasters[event.topic, old](fields)
            return event(originator_id=stream, originator_version=version, **fields)
        except (ValidationError, TypeError, KeyError, ValueError) as e:
            problem = e.errors()[0]["msg"] if isinstance(e, ValidationError) else repr(e)
            raise _integrity(
                "unreadable_event", f"{where} ({topic}) cannot be read: {problem}"
            ) from e


def _integrity(reason: str, message: str) -> RunStoreError:
    return RunStoreError(RUN_INTEGRITY_ERROR, reason, message)
