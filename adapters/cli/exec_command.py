"""The command that runs any other command as a run."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from typer.core import TyperCommand

from ..masking import mask
from .context import DEFAULT_DB, Options, Owner, RunId, opened, options, read_json
from .exits import (
    GIVEN_UP,
    HUNG_UP,
    INTERRUPTED,
    NOT_EXECUTABLE,
    NOT_FOUND_COMMAND,
    NOT_NOW,
    OK,
    TERMINATED,
    complain,
    one_line,
)

if TYPE_CHECKING:
    from ...domain.lease import RunLeaseHandle
    from ...domain.record import RunRecord
    from ..executing.running import Done, Terms

#: The signals that end exec, as a detach, and the exit codes that tell of it.
SIGNALS: Final = {
    signal.SIGHUP: HUNG_UP,
    signal.SIGINT: INTERRUPTED,
    signal.SIGTERM: TERMINATED,
}


class ExecCommand(TyperCommand):
    """Lets --wait do without a value, which must not swallow the word after it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = args.index("--") if "--" in args else len(args)
        args[:own] = ["--wait=inf" if arg == "--wait" else arg for arg in args[:own]]
        return super().parse_args(ctx, args)


def exec_(
    ctx: typer.Context,
    run_id: RunId,
    command: Annotated[
        list[str],
        typer.Argument(metavar="CMD", help="The command to run, and its arguments; after a --."),
    ],
    kind: Annotated[str | None, typer.Option(metavar="NAME", help="The kind of a new run.")] = None,
    input_: Annotated[
        str | None,
        typer.Option(
            "--input", metavar="JSON|@FILE|-", help="A new run's input; - reads it from stdin."
        ),
    ] = None,
    delivery_ref: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where a new run's result is to go.")
    ] = None,
    ttl: Annotated[float, typer.Option(metavar="SECONDS", help="How long a lease lasts.")] = 60.0,
    grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Between SIGTERM and SIGKILL."),
    ] = 10.0,
    max_attempts: Annotated[
        int, typer.Option(metavar="N", min=1, help="How often it may fail before the run failed.")
    ] = 1,
    owner: Owner = None,
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="[=SECONDS]",
            help="Wait until the run can be had or has completed; without SECONDS for ever.",
        ),
    ] = None,
) -> None:
    """Run a command as a run: once, however many hosts try, and with its history kept.

    The command's exit code is passed on. 0 completes the run; anything else fails it, or with
    --max-attempts hands it back. If the lease is lost the command is ended: SIGTERM to its process
    group, and SIGKILL after --grace. So it is on SIGTERM, SIGHUP and Ctrl-C, and the run is handed
    back, not cancelled.
    """
    _fill_standard_files()
    # Of a renewal that failed, and the like: told apart from what the command prints.
    logging.basicConfig(format="runjournal: %(message)s")
    arguments: dict[str, Any] = {}
    if kind is not None:
        arguments["kind"] = kind
    if input_ is not None:
        arguments["input"] = read_json(input_, "--input")
    if delivery_ref is not None:
        arguments["delivery_ref"] = delivery_ref
    patience = 0.0 if wait is None else _patience(wait)

    from ...domain.checks import check_seconds
    from ..executing.running import Terms
    from ..executing.taking import NotTaken, Wanted, take

    grace = 0.0 if grace == 0 else check_seconds(grace, "--grace")
    with opened(ctx, creates=True) as journal, _noted_signal() as noted:
        ledger = journal.ledger(owner, ttl, require="cross-process")
        terms = Terms(
            grace, max_attempts, lambda: bool(noted), _hider(options(ctx)), journal.store.now
        )
        try:
            lease = take(journal, ledger, Wanted(run_id, arguments), patience, terms.interrupted)
        except NotTaken as reason:
            _say(str(reason))
            why = {"completed": OK, "not now": NOT_NOW}
            raise typer.Exit(why[reason.why] if reason.why in why else SIGNALS[noted[0]]) from None
        code = _run(options(ctx), lease, command, terms, noted)
    raise typer.Exit(code)


def _run(
    given: Options,
    lease: RunLeaseHandle,
    command: list[str],
    terms: Terms,
    noted: list[signal.Signals],
) -> int:
    from ..executing.running import run_command

    done = run_command(lease, command, _environment(given, lease), terms)
    if done.refused is not None:
        error = done.refused
        complain(error.code, error.reason, error.message, error.hint)
    if done.why == "interrupted":
        return SIGNALS[noted[0]]
    if done.record is None or done.why == "lost":
        if done.refused is None:
            _say(f"run {lease.run_id!r}: its lease could not be renewed, so the command was ended")
        return GIVEN_UP
    return _code_of(done, done.record, command[0])


def _code_of(done: Done, record: RunRecord, command: str) -> int:
    from ..executing.running import name_of

    ending, name = done.ending, f"run {record.run_id!r}"
    if ending.errno is not None:
        _say(f"{command!r}: {os.strerror(ending.errno)}; {name} was released")
        return NOT_FOUND_COMMAND if ending.errno == errno.ENOENT else NOT_EXECUTABLE
    code = ending.exit_code if ending.signal is None else 128 + ending.signal
    assert code is not None  # it has ended in one way or the other
    if code != OK:
        due = f", and is due again at {record.available_at}" if record.available_at else ""
        _say(f"{name}: {name_of(ending)}; it is {record.status}{due}")
    return code


def _environment(given: Options, lease: RunLeaseHandle) -> dict[str, str]:
    """What a command knows of its run, beside the environment that is there already."""
    url = given.db or DEFAULT_DB
    if url.startswith("sqlite:///"):  # also after a cd
        path, mark, query = url.removeprefix("sqlite:///").partition("?")
        url = f"sqlite:///{Path(path).absolute()}{mark}{query}"
    keys = {}
    if given.key_file is not None:  # likewise
        keys["RUNJOURNAL_KEY_FILE"] = str(Path(given.key_file).absolute())
    environment = dict(os.environ)
    if shutil.which("runjournal") is None:  # as when cron calls us by our full path
        places = (environment.get("PATH", os.defpath), str(Path(sys.executable).parent))
        environment["PATH"] = os.pathsep.join(places)
    return {
        **environment,
        "RUNJOURNAL_RUN_ID": lease.run_id,
        "RUNJOURNAL_FENCING_TOKEN": str(lease.fencing_token),
        "RUNJOURNAL_ATTEMPT": str(lease.attempt),
        "RUNJOURNAL_KIND": lease.record.kind,
        "RUNJOURNAL_DB": url,
        "RUNJOURNAL_SCHEMA": given.schema,
        "RUNJOURNAL_POOLER": "1" if given.pooler else "0",
        **keys,
    }


def _hider(given: Options) -> Callable[[str], str]:
    """Takes the password out of what a command printed that shows its environment, as `env` does.

    The address is what we have put there. For everything else it is the command's own result.
    """
    try:
        password = urlsplit(given.db or "").password
    except ValueError:  # no address: opening the journal says so
        password = None
    if not password:
        return str
    return lambda text: text.replace(f"{password}@", "***@")


def _patience(wait: float) -> float:
    from ...domain.checks import check_seconds

    return wait if wait in (0, inf) else check_seconds(wait, "--wait")


def _say(text: str) -> None:
    print(f"runjournal: {mask(one_line(text))}", file=sys.stderr, flush=True)


def _fill_standard_files() -> None:
    """A caller may have closed one: what is opened next would take its number, and our output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


@contextmanager
def _noted_signal() -> Iterator[list[signal.Signals]]:
    """A list that the first signal is put into; a second one finds the default action again."""
    noted: list[signal.Signals] = []
    # One that is ignored, as under nohup, stays so.
    before = {n: signal.getsignal(n) for n in SIGNALS if signal.getsignal(n) != signal.SIG_IGN}

    def restore() -> None:
        for number, action in before.items():
            signal.signal(number, action)

    def on_signal(number: int, _frame: FrameType | None) -> None:
        restore()
        noted.append(signal.Signals(number))

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield noted
    finally:
        restore()
