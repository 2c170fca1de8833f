"""What the virtual isolation does when a session's replacement fails in its turn."""

import pytest
from tests.contract.census import CountedFamily
from trio.testing import MockClock

from paraudio.engines import Job, Load
from paraudio.errors import BackendError
from paraudio.testing import open_virtual_isolation


async def test_a_revival_that_fails_is_an_error_of_the_backend_and_closes_everything_once(
    autojump_clock: MockClock,
) -> None:
    family = CountedFamily()
    options = {"fail_clone": 2}  # the second session of this configuration is the replacement
    load = Load("/m", "tts", "offline", None, None, options, {}, model_id="m", generation=1)
    async with open_virtual_isolation(can_kill=True) as isolation:
        model = await isolation.load(family, load)
        session = await model.session()
        isolation.crash("m")
        with pytest.raises(BackendError, match="simulated failure of session 2"):
            await session.run(Job(task="tts", text="x"))
        assert family.census.sessions == {}
        result = await session.run(Job(task="tts", text="again"))
        assert result.artifacts["text"] == "again", "the next try builds a third one"
        isolation.crash("m")
        await session.close()
        await model.close()
    census = family.census
    assert (census.sessions, census.weights, census.wrongs) == ({}, {}, [])
