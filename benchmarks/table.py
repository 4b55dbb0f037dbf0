"""The table of the README: the other benchmarks one after the other, with date and machine.

python -m benchmarks.table             # prints it, as Markdown; what goes on is on stderr
python -m benchmarks.table --write     # and puts it into README.md
python -m benchmarks.table --only checkpoint,chain
"""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from .figure import Figure, chosen, number, parsed, parser
from .machine import machine
from .pages import README, put, table
from .postgres_server import DSN, server

#: The modules of the table, in its order, and what they do not measure here.
MODULES: dict[str, dict[str, str]] = {
    "checkpoint": {},
    "postgres_checkpoint": {},
    "postgres_append": {},
    "postgres_slow_flush": {},
    "postgres_claims": {},
    "growing": {"axes": "events"},
    "chain": {},
    "verify": {},
    "encryption": {},
}
HEADS = ["Measured", "Against", "Ratio", "Rounds", "Better"]


def measured(names: Iterable[str], options: Namespace) -> Iterator[Figure]:
    """The figures for the table, as soon as they are there; others are only told on stderr."""
    for name in names:
        module = _module(name)
        own = chosen(module.SETTINGS, options.quick, dsn=options.dsn, **MODULES[name])
        for figure in module.figures(own):
            print(figure.line(), file=sys.stderr, flush=True)
            if not figure.aside:
                yield figure


def markdown(figures: Iterable[Figure]) -> str:
    return table(HEADS, [[f.what, f.against, number(f.ratio), f.spread, f.better] for f in figures])


def _module(name: str) -> Any:
    return importlib.import_module(f".{name}", __package__)


def main() -> None:
    own = parser(__doc__)
    own.add_argument("--write", action="store_true", help="into README.md")
    options = parsed(own, DSN | {"only": (",".join(MODULES), ",".join(MODULES))})
    names = options.only.split(",")
    with ExitStack() as stack:
        postgres = None
        if any("dsn" in _module(name).SETTINGS for name in names):
            postgres = stack.enter_context(server(options.dsn))
            if options.dsn and "postgres_slow_flush" in names:
                names.remove("postgres_slow_flush")  # others may need that server as it is
            options.dsn = postgres.url
        text = f"{markdown(measured(names, options))}\n\n{machine(postgres, options.quick)}"
    print(text)
    if options.write:
        put(README, "table", text)


if __name__ == "__main__":
    main()
