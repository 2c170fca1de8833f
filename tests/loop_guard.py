"""A pytest plugin: a test whose code blocks the event loop fails."""

import gc
from collections.abc import Generator
from contextlib import ExitStack
from typing import Final

import pytest

from paraudio.testing import Stall, guarded_runs

WAIT_LIMIT_S: Final = 2.0
"""Generous, since a virtual machine is made to wait by its host, which no test is to blame for."""

COLLECT_EVERY: Final = 100
"""Tests between two full collections. Of some thousand tests' objects one takes half a second,
which would be held against whichever step it falls into."""

_STALLS: list[Stall] = []
_COLLECTING: set[str] = set()
_GUARD = ExitStack()


def pytest_configure() -> None:
    """Guard every run of trio, whichever library starts it."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, 10**6)
    _GUARD.enter_context(guarded_runs(_STALLS.append, wait_limit_s=WAIT_LIMIT_S))


def pytest_unconfigure() -> None:
    """Take the guard away."""
    _GUARD.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say after which tests everything is collected, where no loop turns."""
    _COLLECTING.update(item.nodeid for item in items[::COLLECT_EVERY])


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Collect, now and then."""
    if item.nodeid in _COLLECTING:
        gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Fail a test whose code blocked the event loop."""
    _STALLS.clear()
    yield
    if _STALLS:
        pytest.fail("\n".join(map(str, _STALLS)), pytrace=False)
