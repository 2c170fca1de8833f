"""The scenarios, by the part of the contract that they judge."""

from paraudio.conformance.scenarios._all import SCENARIOS
from paraudio.conformance.scenarios._status import WATCHED

__all__ = ["SCENARIOS", "WATCHED"]
