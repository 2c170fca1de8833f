"""Sessions of the odd family, each in a process of its own."""

from collections.abc import AsyncIterator

import pytest
from tests.engines.odd_families import OddFamily, odd_load

from paraudio.engines.isolation import (
    ModelHandle,
    ProcessIsolation,
    SessionHandle,
    open_process_isolation,
)


@pytest.fixture
async def isolation() -> AsyncIterator[ProcessIsolation]:
    async with open_process_isolation(hang_timeout_s=0.1) as it:
        yield it


@pytest.fixture
async def model(isolation: ProcessIsolation) -> AsyncIterator[ModelHandle]:
    it = await isolation.load(OddFamily(), odd_load())
    yield it
    await it.close()


@pytest.fixture
async def session(model: ModelHandle) -> AsyncIterator[SessionHandle]:
    it = await model.session()
    yield it
    await it.close()
