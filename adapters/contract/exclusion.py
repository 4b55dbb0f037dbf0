"""Exclusion: a name has one holder at a time."""

from __future__ import annotations

from typing import Any

import pytest

from ...domain.errors import RUN_CONFLICT, RUN_VALIDATION_ERROR, RunStoreError
from ...domain.ports import RunStore
from .tools import StoreHooks, race, refused


class ExclusionContract(StoreHooks):
    """`exclusive` of the RunStore port: for a store that can keep its promise."""

    def test_second_holder_is_refused_at_once(self, store: RunStore) -> None:
        with store.exclusive("job") as hold:
            hold.check()
            for _ in range(2):
                with refused(RUN_CONFLICT, "already_running") as caught, store.exclusive("job"):
                    pass
            assert "job" in caught.value.message
            assert caught.value.retryable
            hold.check()

    def test_names_do_not_exclude_one_another(self, store: RunStore) -> None:
        with store.exclusive("job"), store.exclusive("job_2"), store.exclusive("j"):
            pass

    def test_name_is_free_after_the_block(self, store: RunStore) -> None:
        for _ in range(3):
            with store.exclusive("job"):
                pass
        with pytest.raises(ZeroDivisionError), store.exclusive("job"):
            _ = 1 / 0
        with store.exclusive("job"):
            pass

    def test_of_many_one_holds_the_name(self, store: RunStore) -> None:
        inside: list[int] = []
        most: list[int] = []

        def hold(number: int) -> bool:
            with store.exclusive("job") as hold:
                inside.append(number)
                most.append(len(inside))
                hold.check()
                inside.remove(number)
            return True

        answers = race(6, hold)
        assert any(answer is True for answer in answers)
        refusals = [a for a in answers if isinstance(a, RunStoreError)]
        assert {(e.code, e.reason) for e in refusals} <= {(RUN_CONFLICT, "already_running")}
        assert set(most) == {1}

    def test_odd_names_are_refused(self, store: RunStore) -> None:
        odd: list[Any] = ["", "Job", "a b", "../up", "1st", "x" * 61, "é", "a\n", None]
        for name in odd:
            with refused(RUN_VALIDATION_ERROR, "identifier"), store.exclusive(name):
                pass

    def test_closed_store_holds_nothing(self, store: RunStore) -> None:
        store.close()
        with refused(RUN_VALIDATION_ERROR, "closed"), store.exclusive("job"):
            pass


class FarExclusionContract(ExclusionContract):
    """The same for a store that a second one can be opened on."""

    def reopen(self, store: RunStore) -> RunStore:
        """A second store over the same data, while the first one is still open."""
        raise NotImplementedError("enrol the backend: reopen returns a second store")

    def test_second_store_is_refused(self, store: RunStore) -> None:
        second = self.reopen(store)
        with store.exclusive("job") as hold:
            with refused(RUN_CONFLICT, "already_running"), second.exclusive("job"):
                pass
            with second.exclusive("other"):
                hold.check()
        with second.exclusive("job"):
            pass
        second.close()
