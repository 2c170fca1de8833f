"""The command against real ``paraudio serve`` processes, in both policies at once."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.programs import environment
from tests.conformance.junit import differences

from paraudio.conformance._reasons import REASONS
from paraudio.conformance.scenarios import SCENARIOS
from paraudio.journal import check, read

BOUND_S = 150
PROGRAM = [sys.executable, "-m", "paraudio"]


def applicable(policy: str) -> set[str]:
    """The cells that a server of that policy can be judged by."""
    parallel = policy == "parallel"
    played = [each for each in SCENARIOS if each.parallel in (None, parallel)]
    return {cell for each in played for cell in each.cells}


@contextmanager
def serving(folder: Path, **settings: object) -> Iterator[str]:
    """Serve, with a journal; yields the URL."""
    config, log = folder / "server.json", folder / "server.log"
    journal = str(folder / "journal.jsonl")
    config.write_text(
        json.dumps({"port": 0, "ui_management": True, "journal": journal, **settings})
    )
    # Into a file: nobody reads a pipe meanwhile, and failures that are provoked are logged whole.
    with log.open("w") as said:
        process = subprocess.Popen(
            [*PROGRAM, "serve", "--config", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=said,
            env=environment(folder),
        )
    try:
        deadline = time.monotonic() + BOUND_S
        while "listening on " not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield log.read_text().partition("listening on ")[2].split()[0]
        process.terminate()
        assert process.wait(BOUND_S) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def begin(folder: Path, url: str) -> subprocess.Popen[str]:
    words = ["conformance", "--url", url, "--json", "--unit-ms", "300", "--jobs", "24"]
    return subprocess.Popen(
        [*PROGRAM, *words, "--junit", str(folder / "junit.xml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(folder),
    )


@pytest.mark.process
@pytest.mark.contract(*sorted(applicable("parallel") | applicable("serial")))
def test_our_server_passes_every_cell_that_applies(tmp_path: Path) -> None:
    policies: dict[str, dict[str, Any]] = {"parallel": {"parallel_jobs": True}, "serial": {}}
    with ExitStack() as stack:
        runs = {}
        for policy, settings in policies.items():
            folder = tmp_path / policy
            folder.mkdir()
            runs[policy] = begin(folder, stack.enter_context(serving(folder, **settings)))
        said = {policy: run.communicate(timeout=BOUND_S) for policy, run in runs.items()}
    for policy, (out, err) in said.items():
        assert err == ""
        report = json.loads(out)
        verdicts = {each["cell"]: each["verdict"] for each in report["cells"]}
        failed = [each for each in report["cells"] if each["verdict"] == "fail"]
        assert (failed, runs[policy].returncode) == ([], 0)
        assert report["policy"] == policy
        passed = {cell for cell, verdict in verdicts.items() if verdict == "pass"}
        assert passed == applicable(policy)
        assert REASONS.keys() <= verdicts.keys() - passed
        assert all(each["reason"] for each in report["cells"] if each["cell"] not in passed)
        assert differences(tmp_path / policy / "junit.xml", report) == []
        assert check(read(tmp_path / policy / "journal.jsonl").events) == []
