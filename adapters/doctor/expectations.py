"""What a deployment is held against: options of the command, or a TOML file with the same names."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from ...domain.checks import refuse
from ..durations import seconds_of

DAY = 86_400.0
Seconds = Annotated[float, BeforeValidator(seconds_of)]


class Expectations(BaseModel):
    """What is expected of a deployment. Ages and durations are in seconds, or texts such as "30d".

    require         how far leases must exclude others: "process" or "cross-process"
    backup          the newest backup: a file, a folder of files, or the time it was made; None: not
                    told
    backup_max_age  how old it may be
    retention       how long runs are kept after their end; None: not told
    gateways        the file that says which ref goes where; None: not told
    undelivered     how long a result may be on its way before that is a warning; a day is a failure
    abandoned       how long a run may lie there with an expired lease; an hour is a failure
    lag             how many events a projection may be behind
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    require: Literal["process", "cross-process"] | None = None
    backup: str | None = None
    backup_max_age: Seconds = DAY
    retention: Seconds | None = None
    gateways: str | None = None
    undelivered: Seconds = 3600.0
    abandoned: Seconds = 300.0
    lag: int = 10_000


def expectations(file: str | None, given: Mapping[str, Any]) -> Expectations:
    """The file's expectations, with those that were given in their place.

    Relative paths in the file begin at its folder. Raises RUN_VALIDATION_ERROR / argument.
    """
    told: dict[str, Any] = {}
    if file is not None:
        path = Path(file)
        try:
            told = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise refuse("argument", f"{file}: it cannot be read: {error}") from None
        for name in ("backup", "gateways"):
            if isinstance(told.get(name), str) and moment_of(told[name]) is None:
                told[name] = str(path.parent / told[name])
    told |= {name: value for name, value in given.items() if value is not None}
    try:
        return Expectations(**told)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        why = first["msg"].removeprefix("Value error, ")
        raise refuse("argument", f"{file or 'doctor'}: {name}: {why}") from None


def moment_of(text: str) -> datetime | None:
    """The time that a text names, in UTC where it says no zone; None where it is no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
