"""The checker: replays a journal against the rules of sections 2 to 5 of the behaviour."""

from paraudio.journal.checker._check import TOLERANCE_S, Checker, check
from paraudio.journal.checker._rule import Violation

__all__ = ["TOLERANCE_S", "Checker", "Violation", "check"]
