"""The work of `service.py`, for `runjournal worker --handler jobs:count`."""

from __future__ import annotations

import time
from typing import Any

from runjournal import WorkerContext


def count(ctx: WorkerContext) -> Any:
    """Counts the letters of an order's words, one checkpoint for each word."""
    words = ctx.input["words"]
    state = ctx.checkpoint or {"words": 0, "letters": 0}
    while state["words"] < len(words):
        ctx.ensure_held()
        time.sleep(0.05)  # stands for work
        letters = state["letters"] + len(words[state["words"]])
        state = {"words": state["words"] + 1, "letters": letters}
        ctx.save_checkpoint(state)
    return {"letters": state["letters"]}
