"""The command line: the app, its global options, and the one place where commands end.

Only typer is loaded here. The commands load the journal, pydantic and rich when they run, so that
`runjournal --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from . import (
    audit_commands,
    backup_commands,
    checkpoint_command,
    delivery_commands,
    demo_command,
    doctor_command,
    exec_command,
    keys_command,
    migrate_command,
    operator_commands,
    part_command,
    prune_command,
    reading_commands,
    stats_command,
    transfer_commands,
    verify_commands,
    worker_command,
)
from .context import DEFAULT_DB, DEFAULT_SCHEMA, Options
from .exits import BROKEN_PIPE, EXITS, INTERRUPTED, OK, PASSED_ON, complain

#: Typer has been built on click and carries its own copy since; the base of the public class is
#: the usage error in both.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]

_CODES = "\n\n".join(f"{code:>3}  {text}" for code, text in EXITS.items())
_EPILOG = f"Exit codes:\n\n{_CODES}\n\nany  {PASSED_ON}"


class Commands(TyperGroup):
    """The group of all commands: however one ends, it ends here, in one line and one code."""

    def main(self, args: Any = None, *_: Any, **__: Any) -> NoReturn:
        sys.exit(self._run(list(sys.argv[1:] if args is None else args)))

    def _run(self, args: list[str]) -> int:
        try:
            with self.make_context("runjournal", args) as ctx:
                self.invoke(ctx)
            sys.stdout.flush()
        except typer.Exit as end:
            return end.exit_code
        except (KeyboardInterrupt, typer.Abort):
            return INTERRUPTED
        except BrokenPipeError:
            _abandon_stdout()
            return BROKEN_PIPE
        except OSError as error:  # a full disk below stdout, a working directory that is gone
            _abandon_stdout()
            return complain("RUN_STORE_UNAVAILABLE", "failed", str(error), "look at the system")
        except _USAGE_ERROR as error:
            return _complain_of_usage(error)
        except Exception as error:
            from ...domain.errors import RunStoreError

            if not isinstance(error, RunStoreError):
                raise
            return complain(error.code, error.reason, error.message, error.hint)
        return OK


def _abandon_stdout() -> None:
    """What is still buffered must not fail once more when the interpreter flushes it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:  # not a file at all
        pass


def _complain_of_usage(error: Any) -> int:
    path = error.ctx.command_path if error.ctx is not None else "runjournal"
    message = error.format_message()
    return complain("RUN_VALIDATION_ERROR", "argument", message, f"see {path} --help")


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A journal for long-running jobs: what happened so far, and who may write the next line.",
    epilog=_EPILOG,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ... import __version__

        typer.echo(f"runjournal {__version__}")
        raise typer.Exit


@app.callback()
def _globals(
    ctx: typer.Context,
    db: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The journal's database.",
            envvar="RUNJOURNAL_DB",
            show_default=DEFAULT_DB,
        ),
    ] = None,
    schema: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The Postgres schema of its tables.", envvar="RUNJOURNAL_SCHEMA"
        ),
    ] = DEFAULT_SCHEMA,
    pooler: Annotated[
        bool,
        typer.Option(
            "--pooler",
            help="The URL is a transaction pooler's, such as PgBouncer's.",
            envvar="RUNJOURNAL_POOLER",
        ),
    ] = False,
    key_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The keys of an encrypted journal.",
            envvar="RUNJOURNAL_KEY_FILE",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of tables for people.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    ctx.obj = Options(db, as_json, schema, pooler, key_file)


_COMMANDS: dict[str, Callable[..., None]] = {
    "start": operator_commands.start,
    "list": reading_commands.list_runs,
    "show": reading_commands.show,
    "log": reading_commands.log,
    "replay": audit_commands.replay,
    "timeline": audit_commands.timeline,
    "report": audit_commands.report,
    "cancel": operator_commands.cancel,
    "fail": operator_commands.fail,
    "resume": operator_commands.resume,
    "decide": operator_commands.decide,
    "worker": worker_command.worker,
    "stats": stats_command.stats,
    "doctor": doctor_command.doctor,
    "verify": verify_commands.verify,
    "anchor": verify_commands.anchor,
    "export": transfer_commands.export,
    "import": transfer_commands.import_,
    "copy": transfer_commands.copy,
    "backup": backup_commands.backup,
    "restore": backup_commands.restore,
    "restore-check": backup_commands.restore_check,
    "prune": prune_command.prune,
    "checkpoint": checkpoint_command.checkpoint,
    "migrate": migrate_command.migrate,
    "demo": demo_command.demo,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
app.command("part", hidden=True)(part_command.part)
app.add_typer(delivery_commands.deliveries, name="deliveries")
app.add_typer(verify_commands.projections, name="projections")
app.add_typer(keys_command.keys, name="keys")
app.command("exec", cls=exec_command.ExecCommand)(exec_command.exec_)


def run() -> NoReturn:
    """The console script."""
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
    # A terminal that cannot show a character must not be able to fail a command.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    app()
    raise AssertionError("the group exits by itself")


if __name__ == "__main__":
    run()
