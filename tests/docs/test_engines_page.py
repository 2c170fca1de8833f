"""The family on the engines page is complete, and keeps the rules by the page's own test."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paraudio.engines import Audio, Family, Job, Load
from paraudio.engines.isolation import open_thread_isolation
from paraudio.errors import InvalidRequestError

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


@pytest.fixture
def page() -> dict[str, Any]:
    """What the page's examples define: the family, then its test."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - the page is our own
    return names


@pytest.fixture
def family(page: dict[str, Any]) -> Family:
    """The family of the page."""
    made: Family = page["PeakFamily"]()
    return made


async def test_the_example_test_passes(page: dict[str, Any]) -> None:
    await page["test_the_family_keeps_the_rules"]()


async def test_the_example_family_runs_and_refuses(family: Family) -> None:
    load = Load("", "asr", "offline", None, None, {}, {})
    sound = Audio(np.array([0.0, 0.25, -0.5, 0.125], dtype=np.float32), 16_000)
    async with open_thread_isolation() as isolation:
        assert (await isolation.inspect(family, load)).memory == 0
        model = await isolation.load(family, load)
        assert model.capacity == 16
        session = await model.session()
        result = await session.run(Job(task="asr", audio=sound))
        assert (result.text, result.sample_rate) == ("0.500", 16_000)
        with pytest.raises(InvalidRequestError, match="no sound"):
            await session.run(Job(task="asr"))
        await session.close()
        await model.close()
        assert isolation.abandoned() == []
