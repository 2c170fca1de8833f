"""What a load is told when the system cannot give it a worker process."""

import errno
import os
from collections.abc import AsyncIterator
from typing import NoReturn

import pytest
import trio
from tests.engines.odd_families import OddFamily, odd_load, say

from paraudio.engines.isolation import ProcessIsolation, open_process_isolation
from paraudio.engines.isolation._child import Child
from paraudio.errors import InsufficientMemoryError, LoadError, ParaudioError, ServerBusyError

pytestmark = pytest.mark.process


@pytest.fixture
async def isolation() -> AsyncIterator[ProcessIsolation]:
    async with open_process_isolation(hang_timeout_s=0.1) as it:
        yield it


@pytest.mark.parametrize(
    ("number", "kind", "retry_after_s"),
    [
        (errno.EMFILE, ServerBusyError, 1),
        (errno.ENFILE, ServerBusyError, 1),
        (errno.EAGAIN, ServerBusyError, 1),
        (errno.ENOMEM, InsufficientMemoryError, 5),
        (errno.EACCES, LoadError, None),
    ],
)
async def test_what_the_system_lacks_is_not_the_fault_of_the_model(
    isolation: ProcessIsolation,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[ParaudioError],
    retry_after_s: int | None,
) -> None:
    async def refused(*_: object) -> NoReturn:
        await trio.lowlevel.checkpoint()
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(Child, "_start", refused)
        with pytest.raises(kind) as caught:
            await isolation.load(OddFamily(), odd_load())
    assert caught.type is kind
    assert caught.value.retry_after_s == retry_after_s
    assert os.strerror(number) in caught.value.message
    model = await isolation.load(OddFamily(), odd_load())
    session = await model.session()
    assert (await session.run(say("hello"))).text == "1: hello"
    await session.close()
    await model.close()
