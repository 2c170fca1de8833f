import json
from dataclasses import asdict
from pathlib import Path

import pytest
import trio
from tests.server.results import End, Left, Writer, measured, note_end, note_left
from tools.shutdown import main

from paraudio.journal import Journal, Kind, read

EARLY = End("matrix: it_ends[queued]", ["SIGTERM"], 2.1, 0.4, 3, 2)
LATER = End("matrix: it_ends[running]", ["SIGTERM", "SIGINT"], 2.1, 1.4, 0, 0)
OVERDUE = End("hung: it_ends", ["SIGTERM"], 2.1, 2.2, 3, 1)
LEFT = Left("running", 1.4, 12.6)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.server.results.ENDS", [])
    monkeypatch.setattr("tests.server.results.LEFT", [])


@pytest.mark.usefixtures("noted")
def test_what_is_noted_is_written_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note_end(EARLY)
    note_end(LATER)
    note_left(LEFT)
    file = tmp_path / "shutdown.json"
    Writer(file).pytest_sessionfinish()
    assert main([str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "| row | signals | bound s | took s | exit | cut |",
        "|---|---|---|---|---|---|",
        "| matrix: it_ends[queued] | SIGTERM | 2.10 | 0.40 | 3 | 2 |",
        "| matrix: it_ends[running] | SIGTERM SIGINT | 2.10 | 1.40 | 0 | 0 |",
        "",
        "| the request was | noticed ms | free ms |",
        "|---|---|---|",
        "| running | 1 | 13 |",
    ]


def test_the_short_table_has_the_slowest_case_of_each_test_and_names_who_is_late(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shutdown.json"
    ends = [asdict(end) for end in (EARLY, LATER, OVERDUE)]
    file.write_text(json.dumps({"ends": ends, "left": []}))
    assert main(["--short", str(file)]) == 1
    said = capsys.readouterr()
    rows = [line.split(" | ")[0] for line in said.out.splitlines()[2:4]]
    assert rows == ["| matrix: it_ends[running]", "| hung: it_ends"]
    assert said.err == "longer than promised: hung: it_ends\n"


def test_a_client_that_left_is_found_in_the_journal(tmp_path: Path) -> None:
    now = 100.0

    async def write() -> None:
        nonlocal now
        async with Journal(tmp_path / "j.jsonl", clock=lambda: now) as record:
            for ticket, request in ((1, "stays"), (2, "leaves")):
                record(
                    Kind.QUEUED, "m", ticket=ticket, manager=False, bound_ms=None, request=request
                )
            now = 107.004
            record(Kind.DISCONNECTED, request="leaves")
            record(Kind.LEFT, "other", ticket=2, why="cancelled")
            now = 107.009
            record(Kind.LEFT, "m", ticket=2, why="cancelled")

    trio.run(write)
    text = (tmp_path / "j.jsonl").read_text()
    header, rest = text.split("\n", 1)
    began = {**json.loads(header), "started": "2026-01-01T00:00:00.000+00:00", "at": 100.0}
    (tmp_path / "j.jsonl").write_text(json.dumps(began) + "\n" + rest)
    left = measured(read(tmp_path / "j.jsonl"), "m", 1767225600.0 + 7.0)
    assert left.noticed_ms == pytest.approx(4, abs=0.01)
    assert left.free_ms == pytest.approx(9, abs=0.01)
