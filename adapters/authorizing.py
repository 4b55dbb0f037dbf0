"""The host's Authorizer, made safe: whatever is no plain yes is a no."""

from __future__ import annotations

import logging
from typing import Any

from ..domain.ports import Authorizer
from ..domain.record import RunRecord
from .logs import fields

log = logging.getLogger("runjournal.authorizer")


class FailingClosed:
    """Asks the host's authorizer. What it raises, or answers beside True and False, is a no.

    What it raised is logged by the name of its type only: its text may tell of the run, or hold
    credentials.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def allows(self, actor: str | None, action: str, record: RunRecord | None) -> bool:
        """Whether the host says yes."""
        about: dict[str, Any] = {}
        if record is not None:
            about = fields(run_id=record.run_id, kind=record.kind)
        try:
            answer: object = self._authorizer.allows(actor, action, record)
        except Exception as e:  # noqa: BLE001 - the host's code may raise anything
            raised = type(e).__name__
            log.error(
                "%s was refused: the authorizer raised %s",
                action,
                raised,
                extra={**about, **fields(error=e)},
            )
            return False
        if not isinstance(answer, bool):
            given = type(answer).__name__
            log.error("%s was refused: the authorizer gave a %s", action, given, extra=about)
        return answer is True
