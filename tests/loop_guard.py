"""A pytest plugin: a test whose code blocks the event loop fails."""

from collections.abc import Generator
from contextlib import ExitStack
from typing import Final

import pytest

from paraudio.testing import Stall, guarded_runs

WAIT_LIMIT_S: Final = 2.0
"""Generous, since a virtual machine is made to wait by its host, which no test is to blame for."""

_STALLS: list[Stall] = []
_GUARD = ExitStack()


def pytest_configure() -> None:
    """Guard every run of trio, whichever library starts it."""
    _GUARD.enter_context(guarded_runs(_STALLS.append, wait_limit_s=WAIT_LIMIT_S))


def pytest_unconfigure() -> None:
    """Take the guard away."""
    _GUARD.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Fail a test whose code blocked the event loop."""
    _STALLS.clear()
    yield
    if _STALLS:
        pytest.fail("\n".join(map(str, _STALLS)), pytrace=False)
