"""Print the mutants that no test has killed and docs/mutants.md does not accept; fail if any.

Run by `make mutants` in the folder that mutmut has worked in. A mutant that changes nothing but a
sentence for people is passed over: such a literal is one that holds a space.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

LITERAL = re.compile(r'f?"([^"]*)"')
ROW = re.compile(r"^\| `(?P<place>[^`]+)` \| `(?P<was>[^`]+)` \| `(?P<now>[^`]*)` \|")
#: What mutmut says of a mutant that no test has noticed.
ALIVE = {"survived", "no tests", "suspicious", "segfault"}

Mutant = tuple[str, str, str]  # the function, the line as it is, the line as it would be


def mutmut(*arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def accepted(page: str) -> Counter[Mutant]:
    """The rows of the page's table, each for one mutant; a removed line is an empty cell's."""
    rows = (ROW.match(line.replace("\\|", "|")) for line in page.splitlines())
    return Counter((row["place"], row["was"], row["now"].strip()) for row in rows if row)


def described(name: str) -> Mutant:
    """A mutant by what it changes: its number moves with every change of the function."""
    lines = mutmut("show", name).splitlines()
    was, now = (
        " ".join(line[1:].strip() for line in lines if re.match(rf"\{sign}(?!\{sign})", line))
        for sign in "-+"
    )
    module, _, function = name.removeprefix("runjournal.domain.").partition(".")
    function = function.rpartition("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ")
    return f"{module}.{function.replace('ǁ', '.')}", was, now


def without_sentences(line: str) -> str:
    return LITERAL.sub(lambda found: "None" if " " in found[1] else found[0], line)


def main(page: Path) -> int:
    known = accepted(page.read_text(encoding="utf-8"))
    found = Counter[str]()
    for line in mutmut("results", "--all", "true").splitlines():
        name, _, status = line.strip().partition(": ")
        if status not in ALIVE:
            found[status] += bool(status)
            continue
        mutant = described(name)
        place, was, now = mutant
        if without_sentences(was) == without_sentences(now):
            found["only a sentence for people"] += 1
        elif known[mutant]:
            known[mutant] -= 1
            found["accepted"] += 1
        else:
            found["not accepted"] += 1
            print(f"{name} ({status})\n    {place}\n    - {was}\n    + {now}")
    print(", ".join(f"{count} {what}" for what, count in sorted(found.items())))
    return min(found["not accepted"], 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
