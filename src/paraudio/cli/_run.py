"""``paraudio run``: one piece of work by one model, without a server."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from paraudio.cli._help import EXIT_CODES, GroupedCommand, GroupedOption
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

F = TypeVar("F", bound=Callable[..., Any])

_EPILOG = f"""\b
Examples:
  paraudio run --model piper-joe --text "Hello there." -o hello.wav
  paraudio run --model pocketsphinx-en --audio hello.wav
  paraudio run --model silero-vad --audio hello.wav --json
  echo "Hello there." | paraudio run --model piper-joe --text-file - -o - | aplay
  paraudio run --model ./voice.onnx --family piper_tts --text Hello -o hello.wav

{EXIT_CODES}"""

MODEL: Final = "Model"
INPUT: Final = "Input"
OUTPUT: Final = "Output"


def _endings() -> str:
    from paraudio.audio import FORMATS  # noqa: PLC0415 - only the help and a run need it

    *most, last = (f".{name}" for name in FORMATS)
    return f"{', '.join(most)} or {last}"


def _option(group: str, *names: str, **kwargs: Any) -> Callable[[F], F]:
    return click.option(*names, cls=GroupedOption, group=group, **kwargs)


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@_option(
    MODEL,
    "-m",
    "--model",
    required=True,
    metavar="NAME|PATH",
    help="A model of the configuration or of `paraudio models`, or a path (with --family).",
)
@_option(MODEL, "--family", help="The engine family of a model that is a path.")
@_option(MODEL, "--task", help="The task of a model that is a path, if its family has several.")
@_option(
    MODEL,
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    envvar="PARAUDIO_CONFIG",
    help="Configuration file to take the model from.",
)
@_option(INPUT, "-t", "--text", help="The text to speak or to align.")
@_option(
    INPUT,
    "--text-file",
    metavar="PATH",
    help="File with the text, UTF-8; - is standard input.",
)
@_option(
    INPUT,
    "-a",
    "--audio",
    metavar="PATH",
    help="The recording to work on; - is standard input.",
)
@_option(INPUT, "--voice", help="A preset of the model, or a voice of its family.")
@_option(INPUT, "--language", help="A language tag such as en or en-US.")
@_option(INPUT, "--speed", type=float, help="Rate of speech; 1 is the voice's own.")
@_option(INPUT, "--prompt", help="A hint for transcription.")
@_option(INPUT, "--seed", help="0 to 2^64-1, for a repeatable result.")
@_option(
    INPUT,
    "-O",
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="An option of the family; the value is JSON, or else a text.",
)
@_option(
    OUTPUT,
    "-o",
    "--output",
    metavar="PATH",
    told=_endings,
    help="Where speech goes: a {} file; - is standard output (wav).",
)
@_option(OUTPUT, "--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
def command(
    *,
    model: str,
    family: str | None,
    task: str | None,
    config: Path | None,
    text: str | None,
    text_file: str | None,
    audio: str | None,
    voice: str | None,
    language: str | None,
    speed: float | None,
    prompt: str | None,
    seed: str | None,
    options: tuple[str, ...],
    output: str | None,
    as_json: bool,
) -> int:
    """Speak, transcribe or find speech once, without a server.

    Speech goes to the file that -o names, a transcript or a table to standard output. A model of
    the store is fetched first if it is not here.
    """
    from paraudio.cli._ask import Ask, check  # noqa: PLC0415 - help must stay fast
    from paraudio.cli._choose import choose  # noqa: PLC0415
    from paraudio.cli._families import OnlyTasks  # noqa: PLC0415
    from paraudio.cli._logging import set_up_command  # noqa: PLC0415
    from paraudio.config import load  # noqa: PLC0415

    loaded = load(config=config, environ=os.environ, flags={}, tasks=OnlyTasks())
    spec = choose(model, loaded.settings, family=family, task=task)
    if text is not None and text_file is not None:
        raise InvalidRequestError("give --text or --text-file, not both", param="text")
    if text is not None and text.strip() == "-":
        raise InvalidRequestError(
            "--text takes the text itself; --text-file - reads it from standard input", param="text"
        )
    if output == "-" and as_json:
        raise InvalidRequestError("-o - and --json write both to standard output", param="-o")
    ask = Ask(
        text=text if text_file is None else _read_text(text_file),
        audio=None if audio is None else _read(audio, "--audio"),
        voice=voice,
        language=language or None,
        speed=speed,
        prompt=prompt,
        seed=_seed(seed),
        options=dict(map(_pair, options)),
        output=output,
    )
    check(ask, spec)
    set_up_command()
    from paraudio.cli._work import work  # noqa: PLC0415 - the engines, after the cheap checks

    return work(ask, spec, loaded.settings, as_json=as_json)


def _read(name: str, flag: str) -> bytes:
    """Read a file, or standard input for ``-``."""
    from paraudio.config import expanded  # noqa: PLC0415 - help must stay fast

    try:
        return sys.stdin.buffer.read() if name == "-" else expanded(name).read_bytes()
    except OSError as error:
        raise InvalidRequestError(
            f"{flag}: {name} cannot be read: {error.strerror}", param=flag
        ) from None


def _read_text(name: str) -> str:
    try:
        return _read(name, "--text-file").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"--text-file: {name} is not UTF-8 text (byte {error.start})", param="--text-file"
        ) from None


def _seed(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 2**64):
        raise InvalidRequestError(
            f"--seed must be a whole number from 0 to 2^64-1, not {text}", param="seed"
        )
    return int(text)


def _pair(text: str) -> tuple[str, Json]:
    """Read ``KEY=VALUE``; a value that is no JSON is a text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidRequestError(f"--option must be KEY=VALUE, not {text}", param="option")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
