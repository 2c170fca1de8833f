"""All scenarios."""

from typing import Final

from paraudio.conformance._scenario import Scenario
from paraudio.conformance.scenarios import (
    _failures,
    _operations,
    _order,
    _registration,
    _status,
    _two_models,
    _waiting,
)

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *_status.SCENARIOS,
    *_operations.SCENARIOS,
    *_two_models.SCENARIOS,
    *_order.SCENARIOS,
    *_registration.SCENARIOS,
    *_failures.SCENARIOS,
    *_waiting.SCENARIOS,
)
