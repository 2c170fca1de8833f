"""The small ways in which `tools.mutate` breaks code: what may stand in place of a node."""

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

PACKAGE: Final = Path("src", "paraudio")

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
LISTED: Final = {"elts", "values", "slice"}
"""Where words are names of slots or types, or parts of a sentence."""
SYMMETRIC: Final = {"min", "max"}
"""Functions whose arguments may change places."""
NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "popleft": "pop"}
SILENT: Final = ("log.", "del ")
"""Statements whose removal nobody has to notice."""


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        file: The file, relative to the project.
        kind: The kind of the change.
        where: The function or class that it is in.
        line: The line of the original.
        before: The original statement or expression.
        after: What stands there instead.
        source: The whole changed file.
    """

    file: Path
    kind: str
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
        for kind, replacement in _replacements(original, path):
            changed = copy.deepcopy(tree)
            _put(changed, path, replacement)
            ast.fix_missing_locations(changed)
            yield Mutant(
                file,
                kind,
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


Change: TypeAlias = tuple[str, ast.AST]
"""The kind of a change, and what comes in place of the original."""


def _replacements(node: ast.AST, path: Sequence[Step]) -> Iterator[Change]:
    """Everything that may come in place of a node."""
    for kind, changes in KINDS.items():
        for replacement in changes(node, path):
            yield kind, replacement


def _conditions(node: ast.AST, _: Sequence[Step]) -> Iterator[ast.AST]:
    """Other comparisons, ``and`` for ``or``, no ``not``, the other branch."""
    match node:
        case ast.Compare(ops=[op]):
            for other in COMPARISONS[type(op)]:
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.BoolOp():
            other_way = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield ast.BoolOp(other_way, node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.If() | ast.While() | ast.IfExp() if not _mutates_itself(node.test):
            negated = copy.copy(node)
            negated.test = ast.UnaryOp(ast.Not(), node.test)
            yield negated


def _values(node: ast.AST, path: Sequence[Step]) -> Iterator[ast.AST]:
    """Other sums, numbers and words; ``max`` for ``min``."""
    match node:
        case ast.BinOp() if type(node.op) in OPERATORS and not _is_type(node):
            yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        case ast.AugAssign() if type(node.op) in OPERATORS:
            yield ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=str(value)) if value.isidentifier() and path[-1][0] not in LISTED:
            yield ast.Constant(f"no_{value}")
        case ast.Name() if node.id in NAMES:
            yield ast.Name(NAMES[node.id], node.ctx)
        case ast.Attribute() if node.attr in NAMES:
            yield ast.Attribute(node.value, NAMES[node.attr], node.ctx)


def _statements(node: ast.AST, _: Sequence[Step]) -> Iterator[ast.AST]:
    """A call, an error, a jump or the change of an attribute that never happens."""
    match node:
        case ast.Expr() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            if not _shown(node).startswith(SILENT):
                yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute()]) | ast.AugAssign(target=ast.Attribute()):
            yield ast.Pass()


def _blocks(node: ast.AST, _: Sequence[Step]) -> Iterator[ast.AST]:
    """A block without its ``with``, its ``finally``, or what one of its ``except`` does."""
    match node:
        case ast.With() | ast.AsyncWith() if all(each.optional_vars is None for each in node.items):
            yield ast.If(ast.Constant(value=True), node.body, [])
        case ast.Try() if node.finalbody:
            without = copy.copy(node)
            without.finalbody = [] if node.handlers else [ast.Pass()]
            yield without
        case ast.ExceptHandler() if not (len(node.body) == 1 and _is_bare_raise(node.body[0])):
            yield ast.ExceptHandler(node.type, node.name, [ast.Raise()])


def _calls(node: ast.AST, _: Sequence[Step]) -> Iterator[ast.AST]:
    """Two arguments that change places; a named one that is left out."""
    if not isinstance(node, ast.Call):
        return
    match node.args:
        case [first, second, *rest] if (
            not {type(first), type(second)} & {ast.Starred}
            and ast.unparse(node.func) not in SYMMETRIC
        ):
            yield ast.Call(node.func, [second, first, *rest], node.keywords)
    for place, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            others = [*node.keywords[:place], *node.keywords[place + 1 :]]
            yield ast.Call(node.func, node.args, others)


def _returns(node: ast.AST, _: Sequence[Step]) -> Iterator[ast.AST]:
    """Nothing that is returned."""
    match node:
        case ast.Return(value=ast.expr() as value) if not (
            isinstance(value, ast.Constant) and not value.value
        ):
            yield ast.Return(ast.Constant(value=None))


KINDS: Final[Mapping[str, Callable[[ast.AST, Sequence[Step]], Iterator[ast.AST]]]] = {
    "conditions": _conditions,
    "values": _values,
    "statements": _statements,
    "blocks": _blocks,
    "calls": _calls,
    "returns": _returns,
}


def _is_bare_raise(node: ast.stmt) -> bool:
    return isinstance(node, ast.Raise) and node.exc is None


def _mutates_itself(test: ast.expr) -> bool:
    """Whether negating a condition would repeat the mutants of the condition itself."""
    return isinstance(test, ast.Compare) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def _is_type(node: ast.BinOp) -> bool:
    return any(isinstance(each, ast.Constant) and each.value is None for each in ast.walk(node))


def _shown(node: ast.AST) -> str:
    """Its code; of a block so much that it can be found."""
    code = ast.unparse(node)
    match node:
        case ast.If() | ast.While():
            kind = "if" if isinstance(node, ast.If) else "while"
            return f"{kind} {ast.unparse(node.test)}"
        case ast.With() | ast.AsyncWith():
            return code.partition("\n")[0]
        case ast.Try(finalbody=[first, *_]):
            return f"try, finally: {ast.unparse(first)}"
        case ast.Try():
            return "try"
        case ast.ExceptHandler():
            return " ".join(line.strip() for line in code.splitlines()[:2])
    return code
