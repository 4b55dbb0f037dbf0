"""FrozenDict: a dict that cannot be changed, so that a frozen record is frozen all through."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator

Key = TypeVar("Key")
Value = TypeVar("Value")


class FrozenDict(dict[Key, Value]):
    """A dict whose content stays as it was made. `|` gives a plain dict."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("a record's mappings cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        # dict's own way would fill a new one item by item.
        return FrozenDict, (dict(self),)


FrozenTexts = Annotated[dict[str, str], AfterValidator(FrozenDict)]
FrozenDecisions = Annotated[dict[str, str | None], AfterValidator(FrozenDict)]
