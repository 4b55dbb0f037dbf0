"""The closed registry of topics, and the upcasters that lead from old schema versions to new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic import AwareDatetime, ValidationError

from .errors import RUN_INTEGRITY_ERROR, RunStoreError
from .events import Event, Outcome, TookOver
from .frozen import FrozenDict

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
        self._revivers = {topic: _reviver(event) for topic, event in self._events.items()}
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

    @property
    def schema_versions(self) -> dict[str, int]:
        """The schema version in which each topic is written now."""
        return {topic: event.schema_version for topic, event in self._events.items()}

    def stored_topics(self, topics: Iterable[str]) -> tuple[str, ...]:
        """These topics with the aliases under which older events of theirs are stored."""
        wanted = tuple(topics)
        return wanted + tuple(old for old, now in self._aliases.items() if now in wanted)

    def revive(self, stream: str, version: int, topic: str, fields: dict[str, Any]) -> Event | None:
        """The event from stored fields that are known to be what this code wrote; None: build it.

        At a fifth of the cost of validation: of each field only the type is looked at. Only for an
        event whose bytes are linked into its stream's hash chain: then they were validated when
        they were written, unless somebody made the whole chain anew. The fields become the event's
        own; where it is None, they may have been changed.
        """
        reviver = self._revivers.get(topic)
        return None if reviver is None else reviver(stream, version, fields)

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


Reviver = Callable[[str, int, dict[str, Any]], Event | None]


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without a zone")
    return moment


def _texts(stored: dict[str, Any]) -> FrozenDict[str, str]:
    _check_texts(stored.values())
    return FrozenDict(stored)


def _items(stored: list[Any]) -> tuple[str, ...]:
    _check_texts(stored)
    return tuple(stored)


def _check_texts(values: Iterable[Any]) -> None:
    if not all(type(value) is str for value in values):
        raise TypeError("not a text")


class _Way(NamedTuple):
    """How a stored value becomes a field's.

    kind     the type that it must have; None: any
    convert  what makes the field of it; None: it is the field's already
    """

    kind: type | None
    convert: Callable[[Any], Any] | None = None


#: By the field's annotation; others make `build` necessary, and so does another type than the
#: field's own: null, which this code does not write, or what somebody else wrote.
_WAYS: dict[Any, _Way] = {
    str: _Way(str),
    str | None: _Way(str),
    int: _Way(int),
    int | None: _Way(int),
    float: _Way(None, float),
    bool: _Way(bool),
    Any: _Way(None),
    AwareDatetime: _Way(str, _moment),
    AwareDatetime | None: _Way(str, _moment),
    dict[str, str]: _Way(dict, _texts),
    tuple[str, ...]: _Way(list, _items),
    Outcome: _Way(dict, Outcome.model_validate),
    TookOver | None: _Way(dict, TookOver.model_validate),
}
#: Shapes of stored events that are remembered for one topic; this code writes far fewer.
_SHAPES = 64


class _Plan(NamedTuple):
    """What makes an event of stored fields with just these names: found once, not for each."""

    pick: Callable[[dict[str, Any]], tuple[Any, ...]]
    kinds: tuple[type, ...]
    missing: dict[str, Any]
    converters: list[tuple[str, Callable[[Any], Any]]]


def _reviver(event: type[Event]) -> Reviver | None:
    """What makes events of this class from their stored fields; None where that takes `build`."""
    fields = event.model_fields
    if not all(field.annotation in _WAYS for field in fields.values()):
        return None
    plans: dict[tuple[str, ...], _Plan] = {}
    current, trusted, names = event.schema_version, event.trusted, set(fields)

    def revive(stream: str, version: int, stored: dict[str, Any]) -> Event | None:
        shape = tuple(stored)
        plan = plans.get(shape)
        if plan is None:
            plan = _plan(event, set(shape))
            if plan is None:
                return None
            if len(plans) < _SHAPES:
                plans[shape] = plan
        if stored.pop("schema_version") != current:
            return None
        pick, kinds, missing, converters = plan
        if tuple(map(type, pick(stored))) != kinds:
            return None
        try:
            for name, convert in converters:
                stored[name] = convert(stored[name])
        except (ValueError, TypeError, AttributeError):
            return None
        stored |= missing
        stored["originator_id"] = stream
        stored["originator_version"] = version
        return trusted(stored, names)

    return revive


def _plan(event: type[Event], given: set[str]) -> _Plan | None:
    """None where a field is missing, or one is there that the class does not know."""
    columns = {"originator_id", "originator_version"}
    fields = event.model_fields
    required = {name for name, field in fields.items() if field.is_required()} - columns
    if not required | {"schema_version"} <= given <= fields.keys() - columns | {"schema_version"}:
        return None
    missing = {
        name: field.get_default(call_default_factory=True)
        for name, field in fields.items()
        if name not in given | columns
    }
    ways = {name: _WAYS[field.annotation] for name, field in fields.items() if name in given}
    kinds = {name: way.kind for name, way in ways.items() if way.kind is not None}
    converters = [(name, way.convert) for name, way in ways.items() if way.convert is not None]
    # Several at least: every event has a time and two hashes.
    pick = itemgetter(*kinds)
    return _Plan(pick, tuple(kinds.values()), missing, converters)


def _integrity(reason: str, message: str) -> RunStoreError:
    return RunStoreError(RUN_INTEGRITY_ERROR, reason, message)
