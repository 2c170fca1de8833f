"""Break the admission and the lifecycle in small ways, one at a time, and see whether tests notice.

``python tools/mutate.py [--rooms admission lifecycle] [--every 5] [--jobs 2] [--only TEXT]``

Each mutant is one change of one expression or statement, in a copy of the project. The fast tests
of the room run against it first; what they let live meets the slow ones. Whoever survives is
printed with its change, unless ``tools/mutants.toml`` says why nobody could tell it from the
original. Exits with 1 when less than 90% of the others are killed.
"""

import argparse
import ast
import copy
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = Path("src", "paraudio")
COPIED: Final = ("src", "tests", "docs", "pyproject.toml")
FLOOR: Final = 0.9
PATIENCE: Final = 4
"""How many times longer than usual a run of tests may compute; a mutant that loops is killed."""
WAITING: Final = 3
"""How many times longer again it may take by the clock, since other work may slow it down."""
LONGEST_S: Final = 1800
MEMORY: Final = 8 * 2**30
"""Bytes of address space that tests may take; a mutant that loops may want all there is."""

FAST: Final = {
    "admission": [
        "tests/admission",
        "--ignore=tests/admission/test_line_machine.py",
        "--ignore=tests/admission/test_scale.py",
    ],
    "lifecycle": ["tests/lifecycle", "--ignore=tests/lifecycle/test_machine.py"],
}
SLOW: Final = {
    "admission": ["tests/admission", "tests/lifecycle", "tests/contract"],
    "lifecycle": [
        "tests/lifecycle/test_machine.py",
        "tests/contract",
        "tests/server",
        "tests/http",
    ],
}

COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "popleft": "pop"}
SILENT: Final = ("log.", "del ")
"""Statements whose removal nobody has to notice."""


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        file: The file, relative to the project.
        where: The function or class that it is in.
        line: The line of the original.
        before: The original statement or expression.
        after: What stands there instead.
        source: The whole changed file.
    """

    file: Path
    where: str
    line: int
    before: str
    after: str
    source: str

    @property
    def key(self) -> str:
        """What names it, also when lines move."""
        return f"{self.file.relative_to(PACKAGE)} {self.where}: {self.before} -> {self.after}"


def mutants(root: Path, file: Path) -> Iterator[Mutant]:
    """Every mutant of one file."""
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    for path, where in _places(tree):
        original = _at(tree, path)
        for replacement in _replacements(original):
            changed = copy.deepcopy(tree)
            _put(changed, path, replacement)
            ast.fix_missing_locations(changed)
            yield Mutant(
                file,
                where,
                getattr(original, "lineno", 0),
                _shown(original),
                _shown(replacement),
                ast.unparse(changed),
            )


Step = tuple[str, int | None]
"""From a node to one of its children: the field, and the place in it if it is a list."""


def _places(tree: ast.Module) -> Iterator[tuple[tuple[Step, ...], str]]:
    """Where there may be something to change, and the function or class that it is in."""

    def walk(
        node: ast.AST, path: tuple[Step, ...], where: str
    ) -> Iterator[tuple[tuple[Step, ...], str]]:
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list", "type_params"}:
                continue
            children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for place, child in children:
                if isinstance(child, ast.AST) and not _is_docstring(child):
                    here = (*path, (name, place))
                    yield here, where
                    inner = f"{where}.{child.name}" if isinstance(child, _NAMED) else where
                    yield from walk(child, here, inner.lstrip("."))

    return walk(tree, (), "")


_NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _at(tree: ast.AST, path: Sequence[Step]) -> ast.AST:
    node: ast.AST = tree
    for name, place in path:
        value = getattr(node, name)
        node = value if place is None else value[place]
    return node


def _put(tree: ast.AST, path: Sequence[Step], new: ast.AST) -> None:
    parent, (name, place) = _at(tree, path[:-1]), path[-1]
    if place is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[place] = new


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[op]):
            for other in COMPARISONS[type(op)]:
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.BoolOp():
            other_way = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield ast.BoolOp(other_way, node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp() if type(node.op) in OPERATORS and not _is_type(node):
            yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        case ast.AugAssign() if type(node.op) in OPERATORS:
            yield ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Name() if node.id in NAMES:
            yield ast.Name(NAMES[node.id], node.ctx)
        case ast.Attribute() if node.attr in NAMES:
            yield ast.Attribute(node.value, NAMES[node.attr], node.ctx)
        case _:
            yield from _other_statements(node)


def _other_statements(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.If() | ast.While() | ast.IfExp() if not _mutates_itself(node.test):
            negated = copy.copy(node)
            negated.test = ast.UnaryOp(ast.Not(), node.test)
            yield negated
        case ast.Expr() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            if not _shown(node).startswith(SILENT):
                yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute()]) | ast.AugAssign(target=ast.Attribute()):
            yield ast.Pass()


def _mutates_itself(test: ast.expr) -> bool:
    """Whether negating a condition would repeat the mutants of the condition itself."""
    return isinstance(test, ast.Compare) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def _is_type(node: ast.BinOp) -> bool:
    return any(isinstance(each, ast.Constant) and each.value is None for each in ast.walk(node))


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.If | ast.While):
        kind = "if" if isinstance(node, ast.If) else "while"
        return f"{kind} {ast.unparse(node.test)}"
    return ast.unparse(node)


class Workshop:
    """Copies of the project in which mutants are tried, one at a time each."""

    def __init__(self, root: Path, base: Path, count: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        self._patience: dict[tuple[str, ...], float] = {}
        for number in range(count):
            place = base / f"copy{number}"
            for name in COPIED:
                source = root / name
                if source.is_dir():
                    ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
                    shutil.copytree(source, place / name, ignore=ignored)
                else:
                    shutil.copy(source, place / name)
            self._free.put(place)

    def measure(self, suites: Sequence[Sequence[str]]) -> bool:
        """Run tests without a mutant, to learn how long they take; whether they pass."""
        place = self._free.get()
        try:
            for suite in suites:
                began = time.perf_counter()
                if not _passes(place, suite, LONGEST_S):
                    return False
                took = time.perf_counter() - began
                self._patience[tuple(suite)] = PATIENCE * took + 10
            return True
        finally:
            self._free.put(place)

    def try_out(self, mutant: Mutant, suites: Sequence[Sequence[str]]) -> str:
        """What kills a mutant: ``fast``, ``slow``, ``time``; or ``nobody``."""
        place = self._free.get()
        file = place / mutant.file
        original = file.read_text(encoding="utf-8")
        file.write_text(mutant.source, encoding="utf-8")
        try:
            for name, suite in zip(("fast", "slow"), suites, strict=False):
                passed = _passes(place, suite, self._patience[tuple(suite)])
                if not passed:
                    return "time" if passed is None else name
            return "nobody"
        finally:
            file.write_text(original, encoding="utf-8")
            self._free.put(place)


def _passes(place: Path, suite: Sequence[str], patience_s: float) -> bool | None:
    """Whether the tests pass; None if they did not end."""
    environment = os.environ | {
        "PYTHONPATH": str(place / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *suite]
    run = subprocess.Popen(
        command,
        cwd=place,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    if sys.platform == "linux":
        resource.prlimit(run.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.prlimit(run.pid, resource.RLIMIT_CPU, (int(patience_s), int(patience_s)))
    try:
        code = run.wait(WAITING * patience_s)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        code = run.wait()
    return None if code == -signal.SIGKILL else code == 0


def excused(root: Path) -> dict[str, str]:
    """The mutants that nobody can tell from the original, and why."""
    file = root / "tools" / "mutants.toml"
    if not file.exists():
        return {}
    entries = tomllib.loads(file.read_text(encoding="utf-8"))["equivalent"]
    return {entry["mutant"]: entry["why"] for entry in entries}


def tell(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Try the mutants, and tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", nargs="+", default=list(FAST), choices=list(FAST))
    parser.add_argument("--every", type=int, default=1, help="take every so manieth mutant only")
    parser.add_argument("--first", type=int, default=0, help="and begin with this one")
    parser.add_argument("--only", default="", help="take mutants whose name has this in it")
    parser.add_argument("--jobs", type=int, default=2, help="how many to try at a time")
    parser.add_argument("--fast", action="store_true", help="leave the slow tests out")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    known = excused(root)
    began = time.perf_counter()
    chosen = [
        (room, mutant)
        for room in arguments.rooms
        for file in sorted((root / PACKAGE / room).glob("*.py"))
        for mutant in mutants(root, file.relative_to(root))
        if arguments.only in mutant.key and mutant.key not in known
    ][arguments.first :: arguments.every]
    with tempfile.TemporaryDirectory() as base, ThreadPoolExecutor(arguments.jobs) as pool:
        workshop = Workshop(root, Path(base), arguments.jobs)
        suites = {
            room: [FAST[room]] if arguments.fast else [FAST[room], SLOW[room]] for room in FAST
        }
        for room in arguments.rooms:
            if not workshop.measure(suites[room]):
                tell(f"the tests of {room} fail without any mutant")
                return 1
        results = pool.map(lambda each: workshop.try_out(each[1], suites[each[0]]), chosen)
        survivors, late = [], 0
        for number, ((_, mutant), killer) in enumerate(zip(chosen, results, strict=True), 1):
            late += killer == "time"
            if killer == "nobody":
                survivors.append(mutant)
                tell(f"SURVIVED {mutant.key}  (line {mutant.line})")
            elif number % 25 == 0:
                tell(f"{number} of {len(chosen)} tried, {len(survivors)} alive")
    killed = len(chosen) - len(survivors)
    share = killed / len(chosen) if chosen else 1.0
    tell(
        f"{len(chosen)} mutants, {killed} killed ({share:.1%}, {late} of them since they "
        f"never ended), {len(survivors)} survived, "
        f"{len(known)} excused, in {time.perf_counter() - began:.0f} s"
    )
    return 0 if share >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
