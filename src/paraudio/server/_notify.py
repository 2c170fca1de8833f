"""Telling a service manager where this process stands, as systemd's ``sd_notify`` does."""

import logging
import os
import socket
from typing import Final

log = logging.getLogger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify(state: str) -> None:
    """Send a state to the socket that ``NOTIFY_SOCKET`` names; without one, do nothing.

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
            manager.sendto(state.encode(), address)
    except OSError as error:
        log.warning("the service manager cannot be told %s: %s", state, error)
