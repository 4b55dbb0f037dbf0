"""Which of the indexes that the migrations make are there. The SQL backends share it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ..projections.inspection import Check

_CREATE = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)[^;]*;")


def missing_indexes(migrations: Sequence[str], there: Collection[str]) -> Check:
    """Holds the names of the indexes that are there against those that the migrations make."""
    made = {m[1]: " ".join(m[0].split()) for m in _CREATE.finditer("".join(migrations))}
    lacking = [statement for name, statement in made.items() if name not in there]
    if not lacking:
        return Check("indexes", "pass", f"all {len(made)} indexes are there")
    names = ", ".join(name for name in made if name not in there)
    return Check("indexes", "fail", f"missing or unusable: {names}", " ".join(lacking))
