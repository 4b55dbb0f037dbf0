"""Every numbered case has a test that says its number: in its name, or first in its docstring."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
#: The numbers in between were about what this project does not have.
CASES = (
    *(2, 4, 5, 7, 9, 11, 12, 14, 15, 16),
    *(18, 20, 21, 22),
    *(23, 25, 27, 28, 29),
    *(31, 33, 34, 36, 37),
    *(40, 41),
    *(45, 47, 48, 49, 50, 53),
    *(54, 56, 58),
    *(59, 61, 62, 64, 65),
    *(66, 68, 70),
    *(72, 74),
    *(76, 78),
)
#: `def test_case_07_...`, or a docstring that begins with the case, of a test or of its file.
NAMED = re.compile(r'^ *(?:def test_case_(\d\d)_|"""Cases? (\d\d)(?: and (\d\d))?: )', re.MULTILINE)


def test_every_case_has_a_test() -> None:
    found = {
        int(number)
        for file in TESTS.rglob("test_*.py")
        for numbers in NAMED.findall(file.read_text(encoding="utf-8"))
        for number in numbers
        if number
    }
    assert found == set(CASES)
