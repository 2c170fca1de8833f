"""A few seconds of the attack that `nox -s attack` makes for as long as one likes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEED = "5"
"""With it the first attackers do everything between them."""


@pytest.mark.process
@pytest.mark.parametrize("how", [[], ["--tls"]])
def test_an_attack_breaks_nothing(how: list[str]) -> None:
    command = [sys.executable, "-m", "tools.attack", "--minutes", "0.05", "--seed", SEED, *how]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the good client: 200" in done.stdout
