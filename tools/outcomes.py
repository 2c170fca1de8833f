"""What became of each mutant, in a file: a run of hours may be cut into many.

A line is one mutant in its file as the file was then. Whoever was killed stays so while the file
is the same, since tests only come; whoever survived is tried again.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tools.mutations import Mutant

ALIVE: Final = "nobody"


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant.

    Attributes:
        mutant: Its key.
        place: Which one it is among those of the same key.
        original: The digest of the file that it is a change of.
        killer: Who killed it, as `tools.mutate` says; ``nobody`` if it lives.
        seconds: How long that took.
    """

    mutant: str
    place: int
    original: str
    killer: str
    seconds: float


class Outcomes:
    """The outcomes so far.

    Args:
        root: The project.
        file: Where they are kept; None keeps none.
    """

    def __init__(self, root: Path, file: Path | None) -> None:
        self._root = root
        self._file = file
        self._digests: dict[Path, str] = {}
        self._known: dict[tuple[str, int, str], Outcome] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                found = Outcome(**json.loads(line))
                self._known[found.mutant, found.place, found.original] = found

    def of(self, mutant: Mutant, place: int) -> Outcome | None:
        """What became of a mutant that was tried."""
        return self._known.get((mutant.key, place, self._digest(mutant.file)))

    def note(self, mutant: Mutant, place: int, killer: str, seconds: float) -> Outcome:
        """Keep what became of a mutant."""
        digest = self._digest(mutant.file)
        new = Outcome(mutant.key, place, digest, killer, round(seconds, 2))
        self._known[new.mutant, new.place, new.original] = new
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(new)) + "\n")
        return new

    def _digest(self, file: Path) -> str:
        if file not in self._digests:
            self._digests[file] = sha256((self._root / file).read_bytes()).hexdigest()[:16]
        return self._digests[file]


def placed(found: Sequence[Mutant]) -> list[tuple[Mutant, int]]:
    """Each mutant with the number of those of the same key before it."""
    seen: Counter[str] = Counter()
    pairs = []
    for mutant in found:
        pairs.append((mutant, seen[mutant.key]))
        seen[mutant.key] += 1
    return pairs
