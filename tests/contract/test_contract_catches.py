"""Each rule of the contract is broken in some store, and the contract must notice it."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from runjournal.adapters import contract

from .caught_by import CAUGHT_BY

TESTS = Path(__file__).parents[1]
#: What a broken store must not fail with: it would be no store at all.
SLIPS = (AttributeError, NameError, NotImplementedError, TypeError)
#: The stores that break nothing, by the file that has them.
SOUND = {
    "contract/broken_stores.py": "Sound",
    "contract/broken_histories.py": "SoundHistory",
    "contract/broken_pruners.py": "MemoryStore",
}


class Results:
    """A pytest plugin: the tests of the inner run by how they went, for each store."""

    def __init__(self) -> None:
        self.failed: dict[str, set[str]] = defaultdict(set)
        self.passed: dict[str, set[str]] = defaultdict(set)
        self.slips: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        store, name = re.split(r"::|\[", report.nodeid)[1:3]
        if report.when == "call" or report.failed:
            found = self.failed if report.failed else self.passed
            found[store.removeprefix("Test")].add(name)

    def pytest_exception_interact(self, node: pytest.Item, call: pytest.CallInfo[object]) -> None:
        if call.excinfo is not None and isinstance(call.excinfo.value, SLIPS):
            self.slips.append(f"{node.nodeid}: {call.excinfo.value!r}")


def run_contract(file: str, tests: Iterable[tuple[str, str]]) -> Results:
    """Run these tests of the contract, each against a store of the file, inside this process."""
    results = Results()
    chosen = [f"{TESTS / file}::Test{store}::{test}" for store, test in tests]
    options = ["-q", "--no-header", "--no-summary", "--tb=line", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *chosen], plugins=[results])
    assert status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return results


@pytest.mark.parametrize("file", CAUGHT_BY)
def test_contract_catches(file: str) -> None:
    caught = CAUGHT_BY[file]
    pairs = [(store, test) for store, tests in caught.items() for test in tests]
    results = run_contract(file, pairs)
    assert dict(results.failed) == {store: set(tests) for store, tests in caught.items()}
    assert results.slips == []


@pytest.mark.parametrize("file", SOUND)
def test_sound_store_passes_the_same_tests(file: str) -> None:
    # A second store is asked only of those that keep their data, and SQLite answers for them.
    second = set(CAUGHT_BY[file].get("ForgetsEverything", ()))
    tests = {test for tests in CAUGHT_BY[file].values() for test in tests} - second
    results = run_contract(file, [(SOUND[file], test) for test in sorted(tests)])
    assert dict(results.failed) == {}
    assert results.passed == {SOUND[file]: tests}


def test_every_test_of_the_contract_catches_somebody() -> None:
    suites = [c for name, c in vars(contract).items() if name.endswith("Contract")]
    rules = {n for c in suites for n, _ in inspect.getmembers(c) if n.startswith("test_")}
    caught = {test for stores in CAUGHT_BY.values() for tests in stores.values() for test in tests}
    assert len(rules) > 200
    assert caught == rules


@pytest.mark.parametrize("file", CAUGHT_BY)
def test_every_broken_store_is_tried(file: str) -> None:
    """What is in the file is either listed, or sound, or what broken stores are made of."""
    source = (TESTS / file).read_text()
    defined = set(re.findall(r"^class (\w+)\((?!\w*Contract|\s)", source, re.MULTILINE))
    defined -= {"Raisable", "Sound", "SoundHistory", "Asking"}
    assert defined == set(CAUGHT_BY[file]) - {"ForgetsEverything"}
