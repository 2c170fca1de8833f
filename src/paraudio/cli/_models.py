"""``paraudio models``: what can be fetched, and what is here."""

import click

from paraudio.cli._help import EXIT_CODES, Formatted
from paraudio.cli._output import print_json, print_table, size


@click.command(cls=Formatted, epilog=EXIT_CODES)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script.")
def command(*, as_json: bool) -> None:
    """List the models that can be fetched, and which are here.

    Models are kept in PARAUDIO_HOME, else in the data folder of the user.
    """
    from paraudio.store import Store  # noqa: PLC0415

    store = Store()
    found = [(entry, store.path(entry.name)) for entry in store.entries()]
    if as_json:
        print_json(
            [
                {
                    "name": entry.name,
                    "task": entry.task,
                    "family": entry.family,
                    "bytes": entry.bytes,
                    "download_bytes": entry.wheel_bytes,
                    "licence": entry.licence,
                    "description": entry.description,
                    "present": path is not None,
                    "path": None if path is None else str(path),
                }
                for entry, path in found
            ]
        )
        return
    print_table(
        ("NAME", "TASK", "FAMILY", "DOWNLOAD", "DISK", "HERE", "LICENCE", "DESCRIPTION"),
        [
            (
                entry.name,
                entry.task,
                entry.family,
                size(entry.wheel_bytes) if entry.wheel_bytes else "-",
                size(entry.bytes) if entry.bytes else "-",
                "no" if path is None else "yes",
                entry.licence,
                entry.description,
            )
            for entry, path in found
        ],
    )
