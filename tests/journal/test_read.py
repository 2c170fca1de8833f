"""Reading a file back: strictly, with line numbers, but for the line that a crash tore off."""

import json
from pathlib import Path

import pytest

from paraudio.journal import Event, JournalError, Kind, Reader, read

HEADER = {
    "format": "paraudio-journal",
    "version": 1,
    "started": "2026-01-01T00:00:00.000+00:00",
    "at": 5.0,
    "pid": 7,
}
EVENT = {"seq": 1, "at": 5.5, "kind": "phase", "model": None, "facts": {"phase": "running"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def write(path: Path, *lines: object, end: str = "\n") -> None:
    path.write_text(
        "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines) + end
    )


def test_events_come_back_as_they_were(path: Path) -> None:
    write(path, HEADER, EVENT, EVENT | {"seq": 2, "at": 6})
    trace = read(path)
    assert trace.events == (
        Event(1, 5.5, Kind.PHASE, None, {"phase": "running"}),
        Event(2, 6, Kind.PHASE, None, {"phase": "running"}),
    )
    assert (trace.header.pid, trace.header.at, trace.header.version) == (7, 5.0, 1)
    assert [trace.line_of(seq) for seq in (1, 2, 3)] == [2, 3, None]


@pytest.mark.parametrize("rest", ['{"seq": 2', "x", json.dumps(EVENT)])
def test_a_torn_last_line_is_left_out_and_reported(path: Path, rest: str) -> None:
    write(path, HEADER, EVENT, rest, end="")
    trace = read(path)
    assert (len(trace.events), trace.torn) == (1, 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        (EVENT | {"kind": "dreamt"}, "unknown kind 'dreamt'"),
        (EVENT | {"facts": {}}, "lacks the fact 'phase'"),
        (EVENT | {"facts": {"phase": 3}}, "cannot have 'phase' = 3"),
        (EVENT | {"kind": "refused", "facts": {"why": "x"}}, "names no model"),
        (EVENT | {"seq": "1"}, "exactly seq, at, kind, model and facts"),
        (EVENT | {"at": None}, "exactly seq, at, kind, model and facts"),
        (EVENT | {"more": 1}, "exactly seq, at, kind, model and facts"),
        (EVENT | {"model": 3}, "exactly seq, at, kind, model and facts"),
        ({"seq": 1}, "exactly seq, at, kind, model and facts"),
        ("[" * 100_000, "not JSON"),
        (HEADER, "another journal begins here; check each file by itself"),
    ],
)
def test_a_line_that_is_no_event_is_an_error_with_its_number(
    path: Path, line: object, message: str
) -> None:
    write(path, HEADER, EVENT, line, EVENT)
    with pytest.raises(JournalError, match=f"line 3: .*{message}") as caught:
        read(path)
    assert caught.value.line == 3


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ("", "not JSON"),
        (EVENT, "must name the format 'paraudio-journal'"),
        (HEADER | {"version": 2}, "version 2 of the format is not known here"),
        (HEADER | {"pid": "7"}, "lacks 'started', 'at' or 'pid'"),
        (HEADER | {"started": None}, "lacks 'started', 'at' or 'pid'"),
    ],
)
def test_a_first_line_that_is_no_header_is_an_error(
    path: Path, first: object, message: str
) -> None:
    write(path, first, EVENT)
    with pytest.raises(JournalError, match=f"line 1: .*{message}"):
        read(path)


@pytest.mark.parametrize("content", ["", '{"format": "paraudio-jou'])
def test_a_file_without_a_complete_line_is_no_journal(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(JournalError, match="no complete line"):
        read(path)


def test_a_file_that_is_not_text_is_no_journal(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(JournalError, match="line 1: not JSON"):
        read(path)


def test_a_missing_file_is_an_error_of_the_system(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(path)


def test_events_come_one_by_one_and_what_is_torn_shows_at_the_end(path: Path) -> None:
    write(path, HEADER, EVENT, EVENT | {"seq": 2}, '{"seq"', end="")
    with Reader(path) as reader:
        assert reader.header.pid == 7
        events = iter(reader)
        assert next(events).seq == 1
        assert (reader.count, reader.line_of(1), reader.line_of(2)) == (1, 2, None)
        assert [event.seq for event in events] == [2]
    assert (reader.count, reader.torn, reader.line_of(2)) == (2, 4, 3)


def test_a_line_without_an_end_is_not_taken_into_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paraudio.journal._read.MAX_LINE", 200)
    write(path, HEADER, EVENT, " " * 300 + json.dumps(EVENT))
    with pytest.raises(JournalError, match="line 3: not JSON"):
        read(path)
    path.write_bytes(b"\0" * 300)
    with pytest.raises(JournalError, match="line 1: not JSON"):
        read(path)


def test_lines_are_known_also_where_numbers_jump_or_come_twice(path: Path) -> None:
    seqs = [1, 2, 3, 7, 8, 2, 9, 1]
    write(path, HEADER, *(EVENT | {"seq": seq} for seq in seqs))
    trace = read(path)
    last = {seq: line for line, seq in enumerate(seqs, 2)}
    assert {seq: trace.line_of(seq) for seq in range(12)} == {
        seq: last.get(seq) for seq in range(12)
    }
