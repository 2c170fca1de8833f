"""The command line as a real process."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, "-c", "from paraudio.cli import main; main()"]


def environment(home: Path, **variables: str) -> dict[str, str]:
    """This process's environment without our own variables, and with an empty model store."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PARAUDIO_")}
    return {**kept, "PARAUDIO_HOME": str(home), "COLUMNS": "100", **variables}


def ended(
    home: Path, *args: str, stdin: bytes | None = None, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run(
        [*PROGRAM, *args],
        input=b"" if stdin is None else stdin,
        capture_output=True,
        timeout=60,
        check=False,
        cwd=home,
        env=environment(home, **variables),
    )
