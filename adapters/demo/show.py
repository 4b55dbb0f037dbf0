"""The demo on a terminal, or as one JSON document."""

from __future__ import annotations

import shlex
import sys
import sysconfig
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ...domain.events import CheckpointSaved, Event, LeaseGranted
from ..cli.exits import one_line
from ..cli.output import cell, console, moment, print_json
from ..masking import mask
from ..report.writing import write_page
from .index import Comparison, Listing
from .takeover import DemoError, Demonstration, Setting, demonstrate, list_tree

#: Of the suffixes, people see the most frequent.
SUFFIXES_SHOWN = 12


def show_demo(path: Path | None, limit: int | None, setting: Setting, as_json: bool) -> bool:
    """Run the demo and print what it came to; whether the proof held."""
    began = time.monotonic()
    listing = list_tree(path or Path(sysconfig.get_path("purelib")), limit)
    stage = _Terminal(listing, quiet=as_json)
    try:
        with stage.progress if stage.live else nullcontext():
            found = demonstrate(listing, setting, stage.watch, stage.told)
    except DemoError as error:
        print(f"runjournal: demo: {one_line(str(error))}", file=sys.stderr)
        return False
    seconds = time.monotonic() - began
    page = (setting.pages or Path(tempfile.gettempdir())) / f"{found.run_id}.html"
    write_page(page, found.page, force=False)
    if as_json:
        print_json(_document(found, seconds) | {"page": str(page)})
    else:
        _print_result(stage.console, found)
        _print_end(stage.console, found, seconds, setting)
        stage.told(f"To look at it: {page.resolve().as_uri()}")
    return found.comparison.proved


class _Terminal:
    """What the audience sees while the demo runs."""

    def __init__(self, listing: Listing, quiet: bool) -> None:
        self.console = console()
        self.console.quiet = quiet
        self.live = self.console.is_terminal and not quiet
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("checkpoints"),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._bar = self.progress.add_task("waiting", total=len(listing.batches))
        self.told(
            f"Indexing {len(listing.entries):,} files below {listing.root} "
            f"in {len(listing.batches)} batches."
        )

    def told(self, sentence: str) -> None:
        self.console.print(cell(sentence), soft_wrap=True)

    def watch(self, event: Event) -> None:
        if isinstance(event, LeaseGranted):
            self.told(_grant_sentence(event))
            self.progress.update(self._bar, description=event.owner)
        elif isinstance(event, CheckpointSaved):
            self.progress.advance(self._bar)


def _grant_sentence(event: LeaseGranted) -> str:
    sentence = f"{event.owner} holds the run, fencing token {event.fencing_token}"
    if event.took_over is None:
        return sentence + "."
    before = event.took_over
    return f"{sentence}, taken over from {before.owner} (token {before.fencing_token})."


def _print_result(to: Console, found: Demonstration) -> None:
    total = found.total
    to.print(
        f"\n{total.files:,} files, {total.bytes:,} bytes, {total.skipped:,} could not be read\n"
        f"sha256 {total.sha256}\n",
        soft_wrap=True,
    )
    to.print(_lines_table(found))
    to.print()
    to.print(_holders_table(found))
    to.print()
    waited = len(found.workers) - 1
    if waited > 1:
        to.print(f"Of {waited} that waited, {found.holdings[-1].owner} alone got the run.\n")
    sent = found.delivered
    to.print(
        f"Delivered to a file: {sent.lines} line after {sent.attempts} attempt, "
        f"invocation id {sent.invocation_id[:21]}…\n",
        soft_wrap=True,
    )
    verdict = _verdict(found.comparison)
    to.print(cell(verdict, "bold green" if found.comparison.proved else "bold red"), soft_wrap=True)


def _print_end(to: Console, found: Demonstration, seconds: float, setting: Setting) -> None:
    to.print(cell(f"Run {found.run_id}, {seconds:.1f} s.", "dim"))
    if setting.db is not None:
        schema = "" if setting.schema == "public" else f"--schema {shlex.quote(setting.schema)} "
        command = f"runjournal --db {mask(setting.db)} {schema}log {found.run_id}"
        to.print(cell(f"Its history: {command}", "dim"), soft_wrap=True)


def _lines_table(found: Demonstration) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("SUFFIX")
    table.add_column("LINES", justify="right")
    ranked = sorted(found.total.lines.items(), key=lambda item: (-item[1], item[0]))
    for suffix, lines in ranked[:SUFFIXES_SHOWN]:
        table.add_row(cell(suffix), f"{lines:,}")
    rest = ranked[SUFFIXES_SHOWN:]
    if rest:
        table.add_row(f"{len(rest)} more", f"{sum(lines for _, lines in rest):,}")
    return table


def _holders_table(found: Demonstration) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("HOLDER", "TOKEN", "ATTEMPT", "FROM", "TO", "CHECKPOINTS", "ENDED"):
        table.add_column(title, no_wrap=True)
    for h in found.holdings:
        table.add_row(
            cell(h.owner),
            str(h.fencing_token),
            str(h.attempt),
            moment(h.since)[11:],
            moment(h.until)[11:],
            str(h.checkpoints.count),
            cell(h.ended),
        )
    return table


def _verdict(c: Comparison) -> str:
    if not c.proved:
        what = f"batches {list(c.differing)} differ" if c.differing else "every batch was changed"
        verdict = f"NOT proved: {what}."
    elif c.changed:
        verdict = f"Proved for {c.equal} batches: equal to an uninterrupted run's."
    else:
        verdict = "Proved: the result equals an uninterrupted run's."
    if c.changed:
        verdict += f" Changed by somebody else meanwhile: {', '.join(c.changed[:5])}"
        verdict += " and others." if len(c.changed) > 5 else "."
    return verdict


def _document(found: Demonstration, seconds: float) -> dict[str, Any]:
    total, proof = found.total, found.comparison
    return {
        "runId": found.run_id,
        "root": found.root,
        "files": total.files,
        "bytes": total.bytes,
        "skipped": total.skipped,
        "sha256": total.sha256,
        "linesBySuffix": total.lines,
        "workers": list(found.workers),
        "holders": [
            {
                "owner": h.owner,
                "fencingToken": h.fencing_token,
                "attempt": h.attempt,
                "from": h.since.isoformat(),
                "to": h.until and h.until.isoformat(),
                "checkpoints": h.checkpoints.count,
                "ended": h.ended,
            }
            for h in found.holdings
        ],
        "delivery": {
            "invocationId": found.delivered.invocation_id,
            "attempts": found.delivered.attempts,
            "lines": found.delivered.lines,
        },
        "proof": {
            "proved": proof.proved,
            "equalBatches": proof.equal,
            "differingBatches": list(proof.differing),
            "changedFiles": list(proof.changed),
        },
        "seconds": round(seconds, 3),
    }
