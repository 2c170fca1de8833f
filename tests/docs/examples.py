"""The examples of a page, as data."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
_HEADING: Final = re.compile(r"^## (.+)$")
_FENCE: Final = re.compile(r"^```(\w*)$")


@dataclass(frozen=True)
class Example:
    """A fenced block: the section that it stands in, its language and its text."""

    section: str
    language: str
    code: str


def examples(page: Path = README) -> list[Example]:
    """Every fenced block, in order."""
    found: list[Example] = []
    section, language, lines = "", "", list[str]()
    for line in page.read_text(encoding="utf-8").splitlines():
        if fence := _FENCE.match(line):
            if language:
                found.append(Example(section, language, "\n".join(lines)))
                language = ""
            else:
                language, lines = fence[1] or "text", []
        elif language:
            lines.append(line)
        elif heading := _HEADING.match(line):
            section = heading[1]
    assert not language, f"{page.name}: a block has no end"
    return found


def only(section: str, word: str, page: Path = README) -> str:
    """The one example of a section that has ``word`` in it."""
    found = [each.code for each in examples(page) if each.section == section and word in each.code]
    assert len(found) == 1, f"{len(found)} examples in {section!r} say {word!r}"
    return found[0]
