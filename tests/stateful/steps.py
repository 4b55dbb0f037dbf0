"""What the rules draw from, and how each of them is checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, rule

from .lines import FINE, TROUBLES
from .processes import Lease

#: Most of what happens, happens to the first.
runs = st.sampled_from(["a", "a", "a", "c", "c", "b", "d"])
#: One is over when the program begins, and its result is to be sent.
sent_runs = st.sampled_from(["b", "b", "a"])
workers = st.sampled_from(["ann", "bob", "cid"])
senders = st.sampled_from(["sue", "tom"])
#: Half of all commands meet no trouble.
troubles = st.sampled_from([FINE] * (len(TROUBLES) - 2) + list(TROUBLES))
delays = st.sampled_from([None, 5, 20])
leases: Bundle[Lease] = Bundle("leases")
sendings: Bundle[Any] = Bundle("sendings")
commands: Bundle[Any] = Bundle("commands")
backups: Bundle[Any] = Bundle("backups")


def step(**given: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A rule after which everything is checked: an invariant would fill the printed program."""

    def make(function: Callable[..., Any]) -> Any:
        @rule(**given)
        @wraps(function)
        def checked(self: Any, **arguments: Any) -> Any:
            result = function(self, **arguments)
            self.check()
            return result

        return checked

    return make
