import sys
from pathlib import Path

import pytest
from tests.store.fake import FakeModel, Python, build

from paraudio.store import Store


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeModel:
    """A fake model, with a pip that looks for it in one folder and nowhere else."""
    model = build(tmp_path / "links")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(model.links))
    return model


@pytest.fixture
def store(tmp_path: Path, fake: FakeModel) -> Store:
    return Store(tmp_path / "home", catalogue=fake.catalogue)


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Python:
    """The interpreter that the store runs pip with, under the test's control."""
    stand_in = Python(tmp_path / "bin")
    monkeypatch.setattr(sys, "executable", str(stand_in.script))
    return stand_in
