"""Words for JSON Schema (2020-12, as OpenAPI 3.1 has it), so that shapes read like shapes."""

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, or another object of an OpenAPI document."""

ANYTHING: Final[Schema] = {}


def text(
    doc: str = "", *, pattern: str | None = None, filled: bool = False, most: int | None = None
) -> Schema:
    """A string; ``filled`` means that it holds more than blanks."""
    made: Schema = {"type": "string"}
    if filled:
        made |= {"minLength": 1, "pattern": r"\S"}
    if pattern is not None:
        made["pattern"] = pattern
    if most is not None:
        made["maxLength"] = most
    return told(made, doc)


def whole(low: int, high: int | None = None, doc: str = "") -> Schema:
    """A whole number within bounds."""
    made: Schema = {"type": "integer", "minimum": low}
    if high is not None:
        made["maximum"] = high
    return told(made, doc)


def number(low: float | None = None, high: float | None = None, doc: str = "") -> Schema:
    """A number within bounds."""
    made: Schema = {"type": "number"}
    if low is not None:
        made["minimum"] = low
    if high is not None:
        made["maximum"] = high
    return told(made, doc)


def flag(doc: str = "", *, default: bool | None = None) -> Schema:
    """True or false."""
    made: Schema = {"type": "boolean"}
    if default is not None:
        made["default"] = default
    return told(made, doc)


def choice(words: Collection[str], doc: str = "", *, default: str | None = None) -> Schema:
    """One of a few words."""
    made: Schema = {"type": "string", "enum": list(words)}
    if default is not None:
        made["default"] = default
    return told(made, doc)


def exactly(word: str) -> Schema:
    """One word."""
    return {"type": "string", "const": word}


def listed(item: Schema, doc: str = "", *, least: int = 0, most: int | None = None) -> Schema:
    """A list."""
    made: Schema = {"type": "array", "items": item}
    if least:
        made["minItems"] = least
    if most is not None:
        made["maxItems"] = most
    return told(made, doc)


def thing(
    properties: Mapping[str, Schema],
    *,
    optional: Collection[str] = (),
    doc: str = "",
    closed: bool = False,
) -> Schema:
    """An object whose properties are all there, but for the optional ones.

    Args:
        properties: Its properties.
        optional: Those that may be missing.
        doc: What it is.
        closed: Whether further properties are refused.
    """
    made: Schema = {"type": "object", "properties": dict(properties)}
    required = [name for name in properties if name not in optional]
    if required:
        made["required"] = required
    if closed:
        made["additionalProperties"] = False
    return told(made, doc)


def mapping(value: Schema, doc: str = "") -> Schema:
    """An object with any names."""
    return told({"type": "object", "additionalProperties": value}, doc)


def maybe(schema: Schema) -> Schema:
    """The same, or ``null``, which is the same as nothing at all."""
    kind = schema.get("type")
    if isinstance(kind, str):
        made = {**schema, "type": [kind, "null"]}
        if "enum" in schema:
            made["enum"] = [*schema["enum"], None]
        return made
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


def either(*schemas: Schema, doc: str = "") -> Schema:
    """Any of several."""
    return told({"anyOf": list(schemas)}, doc)


def switch(doc: str, *, default: bool | None = None) -> Schema:
    """A flag of a query, where an empty one is as if it were missing."""
    made = either(flag(), exactly(""), doc=f"{doc.rstrip('.')}; empty is as if it were missing.")
    return made if default is None else {**made, "default": default}


def ref(name: str) -> Schema:
    """A schema of the document, by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def told(schema: Schema, doc: str) -> Schema:
    """A schema with its description."""
    return {**schema, "description": doc} if doc else schema
