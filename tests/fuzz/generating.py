"""What outside input is made of here: good bytes that were damaged, and texts that nobody means."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))

#: Texts that lead decoders astray: signs of formats, of shells, of SQL, of terminals.
HOSTILE = [
    "",
    " ",
    "\0",
    "\n",
    "\x1b[2J",
    "\ud800",
    "\u202e",
    "\ufeff",
    "é" * 200,
    "x" * 5000,
    "-",
    "--",
    "-1",
    "0",
    "9" * 5000,
    "1e999",
    "NaN",
    "null",
    "@",
    "@/nowhere",
    "@.",
    "..",
    "/",
    "%",
    "'",
    '"; DROP TABLE runs; --',
    "{",
    "[" * 5000,
    "[]",
    "{}",
    "run/x",
    "=",
    "a=b",
    "2025-02-30T00:00:00Z",
    "2025-02-03T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
]


def bounded(examples: int, times: int = 40) -> settings:
    """So many examples, or `times` as many in the long form; none may take longer than 30 s."""
    return settings(
        max_examples=examples * times if PROVE else examples,
        deadline=timedelta(seconds=30),
        # The suite's own run is the same each time; what the long one finds is kept as a test.
        derandomize=not PROVE or times == 1,
        database=None,
        # Small enough as they come, and an example takes long.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))
#: Python values near JSON, most of them not quite.
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**400, 0, -1]),
    st.floats(),
    texts,
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """The bytes with a few places changed: overwritten, taken out, put in, repeated or cut off."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        span = draw(st.integers(1, 40))
        match draw(st.integers(0, 5)):
            case 0:
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                del data[at : at + span]
            case 2:
                data[at:at] = draw(st.binary(max_size=20))
            case 3:
                data[at:at] = data[at : at + span]
            case 4:
                del data[at:]
            case _:
                data[at : at + span] = draw(texts).encode("utf-8", "surrogatepass")
    return bytes(data)


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """The JSON document with one value in it replaced, left out, or one more added."""
    if isinstance(document, dict) and document and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(document)))
        changed = dict(document)
        if draw(st.integers(0, 5)) == 0:
            del changed[key]
        else:
            changed[key] = draw(altered(document[key]))
        return changed
    if isinstance(document, list) and document and draw(st.integers(0, 4)):
        index = draw(st.integers(0, len(document) - 1))
        return [*document[:index], draw(altered(document[index])), *document[index + 1 :]]
    if isinstance(document, dict) and draw(st.booleans()):
        return {**document, draw(texts): draw(json_values)}
    return draw(json_values)


def as_json(value: Any) -> bytes:
    """The value as text that a JSON parser may or may not take: NaN and surrogates as they come."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
