"""The processes of workers."""

import psutil

from paraudio.engines.isolation import SessionHandle
from paraudio.engines.isolation._handle import Handle


def children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "paraudio.engines.worker" in child.cmdline()
    ]


def pid_of(session: SessionHandle) -> int:
    assert isinstance(session, Handle)
    assert session.pid is not None
    return session.pid
