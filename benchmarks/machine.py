"""When and where a benchmark ran, in one line: what a ratio must not be quoted without."""

from __future__ import annotations

import platform
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from runjournal.adapters.part_processes import usable_cores

from .postgres_server import Server


def machine(postgres: Server | None, quick: bool) -> str:
    """The line under a table; it says so where the run was too short to be quoted."""
    parts = [
        f"{datetime.now(UTC):%Y-%m-%d}",
        f"{usable_cores()} cores",
        _processor(),
        platform.system(),
        f"Python {platform.python_version()}",
        f"SQLite {sqlite3.sqlite_version}",
    ]
    if postgres is not None:
        parts.append(f"Postgres {postgres.show('server_version').split()[0]}")
    short = " A short run, to see that it works: not to be quoted." if quick else ""
    return f"Measured {', '.join(parts)}.{short}"


def _processor() -> str:
    """The processor's name; Python alone knows it on few systems."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
