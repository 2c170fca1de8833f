"""The command's words, exit codes and forms of output."""

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result as Ran
from tests.cli.conftest import cli
from tests.conformance.junit import differences

from paraudio import conformance
from paraudio.conformance import Report, Result, Verdict, to_json, to_junit

__all__ = ["cli"]

Cli = Callable[..., Ran]

REPORT = Report(
    "http://there",
    "serial",
    2.5,
    [
        Result("ops/ready/unload", Verdict.PASS, "", ("unload, ready",), 1.5),
        Result("order/bulk_with_single", Verdict.FAIL, "a: 500 <bad> \x00", ("one", "two"), 1.0),
        Result("beyond/g05_bounded_shutdown", Verdict.NOT_APPLICABLE, "ends it", (), 0.0),
    ],
)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[Report]:
    """Lets the command come to a report without a server: the last one of the list."""
    reports = [REPORT]

    async def conform(*_: object, **__: object) -> Report:
        return reports[-1]

    monkeypatch.setattr(conformance, "conform", conform)
    return reports


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ([], "--url"),
        (["--url", "127.0.0.1:8080"], "http://HOST:PORT"),
        (["--url", "http://"], "http://HOST:PORT"),
        (["--url", "http://[::1"], "http://HOST:PORT"),
        (["--url", "http://there:99999"], "http://HOST:PORT"),
        (["--url", "http://x", "--jobs", "0"], "--jobs"),
        (["--url", "http://x", "--junit", "/no/such/folder/f.xml"], "cannot be written"),
    ],
)
def test_wrong_usage_ends_with_2(
    cli: Cli, reported: list[Report], words: list[str], hint: str
) -> None:
    result = cli("conformance", *words)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_a_pattern_that_matches_no_cell_ends_with_2(cli: Cli, reported: list[Report]) -> None:
    reported.append(Report("http://x", "serial", 0, []))
    result = cli("conformance", "--url", "http://x", "--only", "nothing/*")
    assert (result.exit_code, "no cell matches nothing/*" in result.stderr) == (2, True)


def test_where_nobody_listens_it_ends_with_1(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result = cli("conformance", "--url", url)
    assert result.exit_code == 1
    assert "does not answer" in result.stderr


def test_without_its_client_library_it_says_how_to_get_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("paraudio.conformance")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx", None)
    result = cli("conformance", "--url", "http://x")
    assert result.exit_code == 2
    assert "pip install httpx" in result.stderr
    assert "uv run --extra conformance" in result.stderr


def test_a_failure_ends_with_1_and_is_told_in_the_table(cli: Cli, reported: list[Report]) -> None:
    result = cli("conformance", "--url", "http://there")
    assert result.exit_code == 1
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert ["ops/ready/unload", "pass"] in lines
    assert any(cell == "order/bulk_with_single" and "fail" in rest for cell, rest in lines)
    assert "1 pass, 1 fail, 1 not applicable" in result.stderr


def test_nothing_that_fails_ends_with_0(cli: Cli, reported: list[Report]) -> None:
    reported.append(Report("http://there", "serial", 1, REPORT.results[::2]))
    assert cli("conformance", "--url", "http://there").exit_code == 0


def test_a_run_that_could_judge_nothing_is_no_success(cli: Cli, reported: list[Report]) -> None:
    reported.append(Report("http://there", "unknown", 1, REPORT.results[2:]))
    result = cli("conformance", "--url", "http://there")
    assert (result.exit_code, "no cell could be judged" in result.stderr) == (1, True)


def test_a_server_that_is_gone_at_the_end_is_told_of(cli: Cli, reported: list[Report]) -> None:
    reported.append(
        Report("http://there", "serial", 1, REPORT.results[:1], "ConnectError: refused")
    )
    result = cli("conformance", "--url", "http://there")
    assert result.exit_code == 1
    assert "did not answer any more at the end" in result.stderr
    assert "ConnectError: refused" in result.stderr
    found = json.loads(cli("conformance", "--url", "http://there", "--json").stdout)
    assert (found["ok"], found["gone"]) == (False, "ConnectError: refused")


def test_json_says_what_the_table_says() -> None:
    shown = to_json(REPORT)
    assert isinstance(shown, dict)
    assert (shown["ok"], shown["policy"]) == (False, "serial")
    assert shown["counts"] == {"pass": 1, "fail": 1, "not applicable": 1}
    assert isinstance(shown["cells"], list)
    assert shown["cells"][0] == {
        "cell": "ops/ready/unload",
        "verdict": "pass",
        "reason": None,
        "scenarios": ["unload, ready"],
        "seconds": 1.5,
    }


def test_junit_says_what_json_says_whatever_a_server_says(
    cli: Cli, reported: list[Report], tmp_path: Path
) -> None:
    file = tmp_path / "junit.xml"
    result = cli("conformance", "--url", "http://there", "--json", "--junit", str(file))
    assert result.exit_code == 1
    assert file.read_text() == to_junit(REPORT)
    assert differences(file, json.loads(result.stdout)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("classname=", "group=", "None/"),
        ("skipped message", "left message", "not applicable"),
        ('tests="3"', 'tests="4"', "tests is 4, not 3"),
        ('time="1.500"', 'time="1.400"', "took 1.4 s, not 1.5"),
        ("ends it", "begins it", "says ['begins it']"),
        ("<failure", "<error", "not fail"),
    ],
)
def test_a_file_that_says_something_else_is_noticed(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    shown = to_json(REPORT)
    assert isinstance(shown, dict)
    text = to_junit(REPORT)
    assert old in text
    file = tmp_path / "junit.xml"
    broken = text.replace(old, new)
    file.write_text(broken.replace("</failure", "</error") if "<error" in broken else broken)
    assert any(said in each for each in differences(file, shown))
