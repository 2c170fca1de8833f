"""Writes the tables of the documents that repeat what the code says.

python tools/reference.py            writes them
python tools/reference.py --check    fails if one is stale

A table stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``; the rest of a page is prose.
"""

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from paraudio.cli._output import size
from paraudio.config import Settings, flag_name, variable_name
from paraudio.engines import Option
from paraudio.engines.catalog import families
from paraudio.http import ROUTES, Gate, path_of, summary_of
from paraudio.spec import ModelSpec
from paraudio.store import CATALOGUE

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGES: Final = (DOCS / "configuration.md", DOCS / "engines.md", DOCS / "http.md")
GATES: Final = {Gate.OPEN: "open", Gate.KEYED: "keyed", Gate.MANAGEMENT: "managed"}

Row = tuple[str, ...]


def settings() -> Iterator[Row]:
    """Every setting of the server."""
    yield "key", "default", "variable and flag", "meaning"
    yield from _fields(Settings, ())


def model() -> Iterator[Row]:
    """Every key of a model object."""
    yield "key", "default", "meaning"
    told = _attributes(ModelSpec)
    for field in dataclasses.fields(ModelSpec):
        if field.default is not dataclasses.MISSING:
            default = _json(field.default)
        else:
            default = "required" if field.default_factory is dataclasses.MISSING else "`{}`"
        yield f"`{field.name}`", default, told[field.name]


def catalogue() -> Iterator[Row]:
    """Every model of the store."""
    yield "model", "family", "task", "download", "on disk", "licence", "what it is"
    for entry in CATALOGUE.values():
        sizes = ("comes installed", "-")
        if entry.wheel_bytes:
            sizes = (size(entry.wheel_bytes), size(entry.bytes))
        name, family = f"`{entry.name}`", f"`{entry.family}`"
        yield name, family, entry.task, *sizes, entry.licence, entry.description


def options(family: str) -> Iterator[Row]:
    """Every option of a family."""
    made = families()[family]
    yield "where", "option", "kind", "default", "meaning"
    for where, schema in (
        ("`load_options`", made.load_options),
        ("`session_options`", made.session_options),
        ("a request's `options`", made.request_options),
    ):
        for option in schema:
            yield where, f"`{option.name}`", _kind(option), _json(option.default), option.doc


def routes() -> Iterator[Row]:
    """Every route, as its own handler and the OpenAPI document describe it."""
    yield "route", "for", "what it does"
    for route in ROUTES:
        yield f"`{route.method} {path_of(route)}`", GATES[route.gate], summary_of(route)


def tables() -> dict[str, str]:
    """Every table by its name."""
    rows = {"settings": settings(), "model": model(), "catalogue": catalogue()}
    rows["routes"] = routes()
    rows |= {f"options {name}": options(name) for name in families()}
    return {name: _table(list(table)) for name, table in rows.items()}


def fresh(text: str) -> str:
    """A page with its tables as they should be."""
    made = tables()

    def replace(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{made[match[1]]}\n<!-- /{match[1]} -->"

    return re.sub(r"<!-- ([a-z_ ]+) -->\n.*?<!-- /\1 -->", replace, text, flags=re.DOTALL)


def stale() -> list[str]:
    """The pages whose tables say something else than the code."""
    return [page.name for page in PAGES if page.read_text(encoding="utf-8") != _fresh_page(page)]


def _fresh_page(page: Path) -> str:
    return fresh(page.read_text(encoding="utf-8"))


def _fields(schema: type[BaseModel], at: tuple[str, ...]) -> Iterator[Row]:
    for name, field in schema.model_fields.items():
        place = (*at, name)
        inner = _schema_of(field)
        if inner is not None:
            yield from _fields(inner, place)
        elif name == "models":
            yield "`models`", "the three below", "", f"{field.description}: see below"
        else:
            default = "" if field.default is PydanticUndefined else _json(field.default)
            spoken = f"`{variable_name(place)}` `{flag_name(place)}`"
            yield f"`{'.'.join(place)}`", default, spoken, field.description or ""


def _schema_of(field: FieldInfo) -> type[BaseModel] | None:
    for part in (field.annotation, *get_args(field.annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _attributes(documented: type) -> dict[str, str]:
    """The attributes that a docstring describes."""
    text = inspect.getdoc(documented) or ""
    _, _, section = text.partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(told.split()).replace("``", "`").rstrip(".") for name, told in entries}


def _kind(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    bounds = [
        f"{word} {int(bound) if float(bound).is_integer() else bound}"
        for word, bound in (("from", option.minimum), ("to", option.maximum))
        if bound is not None
    ]
    return " ".join([words[option.kind], *bounds])


def _json(value: object) -> str:
    if value is None:
        return "none"
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`"


def _table(rows: Sequence[Row]) -> str:
    head, *body = rows
    if not body:
        return "(none)"
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def main(arguments: Sequence[str]) -> int:
    """Write or check the pages."""
    if "--check" in arguments:
        for name in stale():
            sys.stderr.write(f"stale: {name}; run python tools/reference.py\n")
        return int(bool(stale()))
    for page in PAGES:
        page.write_text(_fresh_page(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
