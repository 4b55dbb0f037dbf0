"""AdoptedLease: writing under a lease that another process was granted and looks after."""

from __future__ import annotations

from types import TracebackType

from .lease import RunLeaseHandle


class AdoptedLease(RunLeaseHandle):
    """A handle got from `ledger.adopt`: the same holder, in another process.

    It writes under the holder's token and is judged by the store like every handle. What it does
    not do is look after the lease: nothing renews it in the background, and neither leaving a
    `with` block nor closing the journal gives the run back.
    """

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        return None
