"""Telling a service manager where this process stands, as systemd's ``sd_notify`` does."""

import logging
import os
import socket
from typing import Final

import trio

log = logging.getLogger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
WATCHDOG: Final = "WATCHDOG=1"

MARGIN_S: Final = 1.0
"""What the manager is asked for beyond the bound, for the process to be buried."""


def status(text: str) -> str:
    """The state that shows a line to whoever asks the manager."""
    return f"STATUS={' '.join(text.split())}"


def extend(seconds: float) -> str:
    """The state that asks the manager for more time than its own configuration gives."""
    return f"EXTEND_TIMEOUT_USEC={round(1_000_000 * (seconds + MARGIN_S))}"


def notify(*states: str) -> None:
    """Send states to the socket that ``NOTIFY_SOCKET`` names; without one, do nothing.

    Never blocks and never fails: a manager that cannot be told is logged.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # Linux's abstract sockets have no file
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.setblocking(False)
            manager.sendto("\n".join(states).encode(), address)
    except OSError as error:
        log.warning("the service manager cannot be told %s: %s", states[0], error)


def watchdog_s() -> float | None:
    """How often the manager must hear of this process, at least; None where it need not.

    ``WATCHDOG_USEC`` says it, unless ``WATCHDOG_PID`` names another process.
    """
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or int(usec) == 0 or pid not in {"", str(os.getpid())}:
        return None
    return int(usec) / 1_000_000


async def feed_watchdog() -> None:
    """Tell the manager twice in its time that the event loop turns; returns where it need not."""
    period_s = watchdog_s()
    if period_s is None:
        return
    while True:
        notify(WATCHDOG)
        await trio.sleep(period_s / 2)
