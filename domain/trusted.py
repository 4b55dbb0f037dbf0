"""Pydantic models that can be made from values which are valid already."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel

_new = object.__new__
# The slots of every model, set without a look-up by name, and past the model's being frozen.
_set_fields, _set_fields_set, _set_extra, _set_private = (
    vars(BaseModel)[slot].__set__
    for slot in (
        "__dict__",
        "__pydantic_fields_set__",
        "__pydantic_extra__",
        "__pydantic_private__",
    )
)


class TrustedModel(BaseModel):
    """A model with a second, unvalidated way in, for the path that every checkpoint takes."""

    @classmethod
    def trusted(cls, fields: dict[str, Any], fields_set: set[str]) -> Self:
        """An instance of `fields`, which must be all there and valid.

        What pydantic's `model_copy` does inside, at a fifth of its cost and a third of a
        validation's; a checkpoint makes three. Only for values that were checked at the door or
        come out of validated events and records. Whatever is read from a store is validated.
        """
        model = _new(cls)
        _set_fields(model, fields)
        _set_fields_set(model, fields_set)
        _set_extra(model, None)
        _set_private(model, None)
        return model
