"""The types of a row's columns, looked at again when it is read.

A STRICT table takes no value of another type. A damaged page can hold one all the same: one bit is
enough to make a text of an integer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import NoneType
from typing import Any, Final

from ...domain.errors import RUN_INTEGRITY_ERROR, RunStoreError

_TYPES: Final = {"TEXT": str, "INTEGER": int, "BLOB": bytes, "REAL": float, "NULL": NoneType}
_NAMES: Final = {kind: name for name, kind in _TYPES.items()}


class Shape:
    """The columns of a row.

    columns  as in the table: `ready_at INTEGER, ...`; behind those that may be NULL is a `?`
    """

    def __init__(self, columns: str) -> None:
        self._columns = [column.split() for column in columns.split(", ")]
        types = (
            (_TYPES[name], NoneType) if kind.endswith("?") else (_TYPES[name],)
            for _, kind in self._columns
            if (name := kind.removesuffix("?"))
        )
        self._right = frozenset(product(*types))

    def fits(self, row: Sequence[Any]) -> bool:
        """Whether each column has a type that it may have."""
        return tuple(map(type, row)) in self._right

    def misfit(self, row: Sequence[Any]) -> str:
        """What is wrong with the columns that do not fit."""
        return "; ".join(
            f"{name} is {_NAMES[type(value)]} and not {kind.removesuffix('?')}"
            for value, (name, kind) in zip(row, self._columns, strict=True)
            if _NAMES[type(value)] != kind.removesuffix("?")
            and not (value is None and kind.endswith("?"))
        )

    def check(self, row: Sequence[Any], what: str) -> Sequence[Any]:
        """The row of `what`; raises RUN_INTEGRITY_ERROR / damaged_database if it does not fit."""
        if not self.fits(row):
            raise damaged(f"{what}: {self.misfit(row)}")
        return row


def damaged(what: str) -> RunStoreError:
    """The error for what no column of a sound database can hold."""
    message = f"the database is damaged: {what}"
    return RunStoreError(RUN_INTEGRITY_ERROR, "damaged_database", message)
