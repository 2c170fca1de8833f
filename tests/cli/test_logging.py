import json
import logging
from collections.abc import Iterator

import pytest

from paraudio.cli._logging import JsonFormatter, TextFormatter, set_up, set_up_command
from paraudio.errors import InvalidRequestError
from paraudio.http._multipart import FormParser

_LIBRARIES = ("hypercorn", "quart", "hpack", "python_multipart")


@pytest.fixture(autouse=True)
def _loggers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in _LIBRARIES}
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:], root.level = handlers, level
    for name, before in quiet.items():
        logging.getLogger(name).setLevel(before)


def record(message: str, level: int = logging.INFO, *, failed: bool = False) -> logging.LogRecord:
    error = ValueError("broken")
    what = (ValueError, error, error.__traceback__) if failed else None
    made = logging.LogRecord("paraudio.x", level, "f.py", 1, message, ("a",), what)
    made.created, made.msecs = 0.25, 250.0
    return made


def test_a_line_has_time_level_and_message() -> None:
    line = TextFormatter(colour=False).format(record("hello %s"))
    time, level, message = line.split(maxsplit=2)
    assert time.endswith(":00.250")
    assert (level, message) == ("INFO", "hello a")


def test_a_traceback_follows_its_line() -> None:
    text = TextFormatter(colour=False).format(record("%s", logging.ERROR, failed=True))
    first, *rest = text.splitlines()
    assert first.endswith("ERROR   a")
    assert rest == ["ValueError: broken"]


def test_warnings_stand_out_on_a_terminal_only() -> None:
    warning = record("%s", logging.WARNING)
    assert "\x1b[33m" in TextFormatter(colour=True).format(warning)
    assert "\x1b" not in TextFormatter(colour=True).format(record("%s"))
    assert "\x1b" not in TextFormatter(colour=False).format(warning)


def test_json_is_one_object_a_line() -> None:
    text = JsonFormatter().format(record("two\nlines of %s", failed=True))
    assert "\n" not in text
    line = json.loads(text)
    assert line.pop("error") == "ValueError: broken"
    assert line == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "info",
        "logger": "paraudio.x",
        "message": "two\nlines of a",
    }


@pytest.mark.parametrize("style", ["text", "json"])
def test_what_is_logged_goes_to_stderr(style: str, capfd: pytest.CaptureFixture[str]) -> None:
    set_up("info", style)
    logging.getLogger("paraudio.a").info("seen")
    logging.getLogger("paraudio.a").debug("not seen")
    logging.getLogger("hypercorn.error").info("not seen")
    logging.getLogger("hypercorn.error").warning("also seen")
    logging.getLogger().handlers[0].flush()
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "seen" in lines[0]
    assert lines[0].startswith("{") == (style == "json")


def test_what_a_client_sent_wrong_is_no_warning(capfd: pytest.CaptureFixture[str]) -> None:
    set_up("info", "text")
    parser = FormParser(b"x")
    with pytest.raises(InvalidRequestError, match="Did not find CR at end of boundary"):
        parser.feed(b"--x  \r\n")
    logging.getLogger().handlers[0].flush()
    assert capfd.readouterr().err == ""


def test_an_error_level_quiets_libraries_too(capfd: pytest.CaptureFixture[str]) -> None:
    set_up("error", "text")
    logging.getLogger("quart").warning("not seen")
    logging.getLogger().handlers[0].flush()
    assert capfd.readouterr().err == ""


def test_a_command_says_what_is_logged_as_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_command()
    logger = logging.getLogger("paraudio.a")
    logger.info("not seen")
    logger.warning("odd %s", "thing")
    logger.error("broken")
    assert capsys.readouterr().err == "warning: odd thing\nerror: broken\n"
