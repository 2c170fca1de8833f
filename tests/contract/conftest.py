"""What the tests of the contract's cells begin with."""

from collections.abc import Iterator

import pytest

from paraudio.testing import Stepper


@pytest.fixture
def stepper() -> Iterator[Stepper]:
    """A program in virtual time, which ends with the test."""
    with Stepper() as it:
        yield it
