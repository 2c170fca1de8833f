"""What calls a family's blocking code, in a thread or in a child process; knows no event loop.

A child imports this package and the family, and nothing of the server.
"""

from paraudio.engines.worker._host import ModelHost, SessionHost, load_host
from paraudio.engines.worker._live import deltas, ending
from paraudio.engines.worker._prepare import begin, built, prepare, prepare_all
from paraudio.engines.worker._reply import Done, Failed, Reply, attempt, translated

__all__ = [
    "Done",
    "Failed",
    "ModelHost",
    "Reply",
    "SessionHost",
    "attempt",
    "begin",
    "built",
    "deltas",
    "ending",
    "load_host",
    "prepare",
    "prepare_all",
    "translated",
]
