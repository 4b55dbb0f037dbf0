"""An agent's loop as a run: each step is a checkpoint, and a risky tool waits for somebody's yes.

A crash between any two lines costs one step at most. The next worker carries out the very call
that was decided on, under a key by which the far end knows it again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runjournal import WorkerContext


def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Stands for a language model: the next tool to call, or the answer."""
    found = [message["content"] for message in messages if message["role"] == "tool"]
    if not found:
        return {"tool": "find_order", "arguments": {"customer": "ada"}}
    if len(found) == 1:
        return {"tool": "refund", "arguments": found[0]}
    return {"answer": f"Refund: {found[1]}"}


def find_order(key: str, customer: str) -> Any:
    return {"order": f"{customer}-17", "amount": 40}


def refund(key: str, order: str, amount: int) -> Any:
    """Stands for a bank that pays once for each idempotency key."""
    paid = Path("bank") / key
    if not paid.exists():
        paid.parent.mkdir(exist_ok=True)
        paid.write_text(json.dumps({"order": order, "amount": amount}))
    return f"{amount} for {order}"


TOOLS = {"find_order": find_order, "refund": refund}
RISKY = {"refund"}


def answer(ctx: WorkerContext) -> Any:
    """The handler. It is called from the top again after a crash and after each suspension."""
    first = {"role": "user", "content": ctx.input["question"]}
    state = ctx.checkpoint or {"messages": [first], "call": None}
    while True:
        ctx.ensure_held()
        if state["call"] is None:
            thought = model(state["messages"])
            if "answer" in thought:
                return thought
            # Saved before it is carried out: a second attempt must not have another idea.
            state["call"] = thought | {"id": f"{thought['tool']}-{len(state['messages'])}"}
            ctx.save_checkpoint(state)
        call = state["call"]
        decision = ctx.record.approvals.get(call["id"]) if call["tool"] in RISKY else "yes"
        if decision is None:
            ctx.lease.suspend([call["id"]], resume_when_decided=True)
            return None  # not used: the run is suspended
        if decision == "yes":
            tool, key = TOOLS[call["tool"]], ctx.invocation_id(call["id"])
            result = tool(key, **call["arguments"])
        else:
            result = f"refused: {decision}"
        state["messages"].append({"role": "tool", "content": result})
        state["call"] = None
        ctx.save_checkpoint(state)
