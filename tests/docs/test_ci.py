"""The script of CI on machines that lack something; stand-ins take the place of programs."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.docs.examples import ROOT

HERE = ("bash", "dirname", "sed", "env", "true")
"""Programs that are what they are; everything else is a stand-in, or missing."""
MISSING = "curl ffmpeg chromium chromium-driver"


class Machine:
    """A machine with some programs, and with a clone of the project.

    Args:
        folder: Where it is.
        uid: Who runs the script.
        programs: What there is besides the basics; each notes that it was called.
    """

    def __init__(self, folder: Path, uid: int, programs: Sequence[str] = ()) -> None:
        self._clone, self._bin = folder / "clone", folder / "bin"
        self._bin.mkdir()
        for name in HERE:
            (self._bin / name).symlink_to(shutil.which(name) or f"/bin/{name}")
        self._program("id", f"echo {uid}")
        for name in programs:
            passes_on = 'shift; exec "$@"' if name == "sudo" else ""
            self._program(name, f"echo {name} $@ >> {folder}/called\n{passes_on}")
        (self._clone / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "run", self._clone / ".ci")
        readme = "```sh\necho tested -m uv run --group dev nox\n```\n"
        (self._clone / "README.md").write_text(readme)
        self._called = folder / "called"

    def run(self) -> tuple[list[str], str]:
        """Run the script; returns the programs that it called, and what it complained of."""
        done = subprocess.run(
            [self._clone / ".ci" / "run"],
            env={"PATH": str(self._bin)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "tested -m uv run --group dev nox"
        called = self._called.read_text().splitlines() if self._called.exists() else []
        return called, done.stderr

    def _program(self, name: str, text: str) -> None:
        place = self._bin / name
        place.write_text(f"#!{self._bin}/bash\n{text}\n")
        place.chmod(0o755)


@pytest.mark.parametrize("programs", [(), ("apt-get",), ("sudo",)])
def test_whoever_may_not_install_is_told_what_is_skipped(
    tmp_path: Path, programs: tuple[str, ...]
) -> None:
    called, said = Machine(tmp_path, 1000, programs).run()
    assert not [line for line in called if line.startswith("apt-get")]
    assert MISSING in said
    assert "The tests that need them are skipped" in said


@pytest.mark.parametrize(("uid", "programs"), [(0, ("apt-get",)), (1000, ("apt-get", "sudo"))])
def test_whoever_may_install_does(tmp_path: Path, uid: int, programs: tuple[str, ...]) -> None:
    called, said = Machine(tmp_path, uid, programs).run()
    assert [line for line in called if line.startswith("apt-get")] == [
        "apt-get update -qq",
        f"apt-get install -y -qq --no-install-recommends {MISSING}",
    ]
    assert said == ""


def test_a_machine_that_lacks_nothing_is_left_alone(tmp_path: Path) -> None:
    programs = ("curl", "ffmpeg", "chromium", "chromedriver", "apt-get")
    assert Machine(tmp_path, 0, programs).run() == ([], "")
