"""The scenarios, by the part of the contract that they judge."""

from paraudio.conformance.scenarios._all import SCENARIOS

__all__ = ["SCENARIOS"]
