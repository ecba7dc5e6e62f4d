"""Small changes to the functions of a module, one at a time, and how to put one into force.

A mutant changes one place in the body of one function: a comparison, a boolean, a number, a word, a
call whose result nobody takes, a returned value, a condition. What is settled when the module is
imported (decorators, defaults, tables, annotations) is not changed, nor the wording of errors, nor
a sentence that is compared with nothing.
"""

from __future__ import annotations

import ast
import gc
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.Pow: ast.Mult,
}  # fmt: skip
Edit = Callable[[], None]
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Mutant:
    """One change: the `number`-th of its module."""

    path: Path
    number: int
    function: str
    line: int
    lines: tuple[int, int]
    """First and last line of the statement that is changed."""
    change: str

    @property
    def name(self) -> str:
        return f"{self.path.name}:{self.line} {self.function}: {self.change}"


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of the module, in the order of its text."""
    return [
        Mutant(path, number, place.function, place.line, place.lines, place.change)
        for number, place in enumerate(_places(_parse(path)))
    ]


_Loaded = dict[tuple[str, str, int], list[FunctionType]]
_loaded: _Loaded = {}
_parsed: dict[Path, ast.Module] = {}


def keep(paths: Iterable[Path]) -> None:
    """The modules as parsed, and their functions as loaded, are at hand in processes forked now."""
    wanted = {str(path): path for path in paths}
    _parsed.update({path: _parse(path) for path in wanted.values()})
    _loaded.clear()
    _loaded.update(_functions_loaded(set(wanted)))


def apply(mutant: Mutant) -> None:
    """The function as it is loaded in this process has the mutant's code from now on."""
    tree = _parsed.pop(mutant.path, None) or _parse(mutant.path)  # an edit spoils what is kept
    for number, place in enumerate(_places(tree)):
        if number == mutant.number:
            place.edit()
            break
    # The whole module's code is not needed, only that of what holds the function.
    tree.body = [
        node for node in tree.body
        if node.lineno <= mutant.line <= (node.end_lineno or node.lineno)
        or (isinstance(node, ast.ImportFrom) and node.module == "__future__")
    ]  # fmt: skip
    ast.fix_missing_locations(tree)
    # The changed line itself may have no code left, where a filter stood there alone.
    compiled = compile(tree, str(mutant.path), "exec")
    # Of several of that name the one that begins last before the line: a change may take the line
    # itself out of the code.
    named = [code for code in _codes(compiled) if code.co_qualname == mutant.function]
    wanted = max(
        (code for code in named if code.co_firstlineno <= mutant.line),
        key=lambda code: code.co_firstlineno,
    )
    name = (str(mutant.path), mutant.function, wanted.co_firstlineno)
    found = (_loaded or _functions_loaded({str(mutant.path)})).get(name)
    if not found:
        raise LookupError(f"{mutant.name}: no such function is loaded")
    for function in found:
        function.__code__ = wanted


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _functions_loaded(files: set[str]) -> _Loaded:
    """Every function of the files in this process, by its file, name and first line."""
    found: _Loaded = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in files:
            code = each.__code__
            name = (code.co_filename, code.co_qualname, code.co_firstlineno)
            found.setdefault(name, []).append(each)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if inspect.iscode(each):
            yield each
            yield from _codes(each)


@dataclass(frozen=True)
class _Place:
    function: str
    line: int
    lines: tuple[int, int]
    change: str
    edit: Edit


def _places(tree: ast.Module) -> Iterator[_Place]:
    for node, name in _functions(tree.body, ""):
        for statement in _statements(node.body):
            last = statement.end_lineno or statement.lineno
            # A compound statement's own part ends where its body begins.
            body = getattr(statement, "body", None)
            if isinstance(body, list) and body:
                last = max(statement.lineno, body[0].lineno - 1)
            for at, change, edit in _edits(statement):
                yield _Place(name, at, (statement.lineno, last), change, edit)


def _functions(
    body: list[ast.stmt], prefix: str
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for node in body:
        if isinstance(node, _FUNCTION):
            yield node, prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _functions([n for n in node.body if not _is_typing(node)], prefix)


def _is_typing(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement, the ones inside others after them; docstrings are none."""
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                yield from _statements([each for each in inner if isinstance(each, ast.stmt)])
        for handler in getattr(node, "handlers", []):
            yield from _statements(handler.body)
        for case in getattr(node, "cases", []):
            yield from _statements(case.body)


def _edits(statement: ast.stmt) -> Iterator[tuple[int, str, Edit]]:
    line = statement.lineno
    match statement:
        case ast.Expr(value=ast.Call() as value):
            yield line, "the call is left out", _set(statement, "value", _nothing(value))
        case ast.Return(value=ast.expr() as value) if not _is_nothing(value):
            yield line, "None is returned", _set(statement, "value", _nothing(value))
        case ast.If(test=test) | ast.While(test=test):
            negated = ast.UnaryOp(ast.Not(), test)
            yield line, "the condition is negated", _set(statement, "test", negated)
        case ast.AugAssign(op=op) if type(op) in COMPUTED:
            other = COMPUTED[type(op)]
            yield line, f"{_word(op)} for {other.__name__}", _set(statement, "op", other())
        case ast.Raise():
            return  # the wording of errors; whether one is raised hangs on a condition
        case _:
            pass
    for node in _expressions(statement):
        yield from _expression_edits(node)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Every expression of the statement itself: no inner statement, annotation or message."""
    waiting: list[tuple[ast.AST, bool]] = []
    for name, value in ast.iter_fields(statement):
        if name in ("annotation", "returns", "decorator_list", "args", "type_comment"):
            continue
        listed = value if isinstance(value, list) else [value]
        found: list[ast.AST] = [e for e in listed if isinstance(e, ast.expr | ast.withitem)]
        found += [g for each in listed if isinstance(each, ast.match_case) and (g := each.guard)]
        waiting += [(each, False) for each in found]
    while waiting:
        node, is_compared = waiting.pop(0)
        if isinstance(node, ast.JoinedStr) or (_is_sentence(node) and not is_compared):
            continue
        yield node
        is_compared = is_compared or isinstance(node, ast.Compare)
        inner = ast.iter_child_nodes(node)
        waiting += [(each, is_compared) for each in inner if not isinstance(each, ast.arguments)]


def _is_sentence(node: ast.AST) -> bool:
    """True if it is a text of several words for a reader, and no code (`stale: …`) begins it."""
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and bool(re.match(r"\w[^:]* \w[^:]*$", text))


def _expression_edits(node: ast.AST) -> Iterator[tuple[int, str, Edit]]:
    line = getattr(node, "lineno", 0)
    match node:
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                other = COMPARED[type(op)]
                yield line, f"{other.__name__} for {_word(op)}", _put(ops, at, other())
        case ast.BoolOp(op=op):
            new = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield line, f"{_word(new)} for {_word(op)}", _set(node, "op", new)
        case ast.BinOp(op=op) if type(op) in COMPUTED:
            made = COMPUTED[type(op)]
            yield line, f"{made.__name__} for {_word(op)}", _set(node, "op", made())
        case ast.UnaryOp(op=ast.Not()):
            yield line, "`not` is left out", _unnot(node)
        case ast.IfExp(body=body, orelse=orelse):
            yield line, "the branches are swapped", _swap(node, body, orelse)
        case ast.comprehension(ifs=ifs) if ifs:
            yield ifs[0].lineno, "the filter is left out", ifs.clear
        case ast.Constant(value=bool() as value):
            yield line, f"{not value} for {value}", _set(node, "value", not value)
        case ast.Constant(value=int() as value):
            yield line, f"{value + 1} for {value}", _set(node, "value", value + 1)
        case ast.Constant(value=str() as value):
            yield line, f"another text for {value[:20]!r}", _set(node, "value", f"XX{value}XX")
        case ast.Call(func=ast.Name(id="any")):
            yield line, "all for any", _set(node, "func", ast.Name("all", ast.Load()))
        case ast.Call(func=ast.Name(id="all")):
            yield line, "any for all", _set(node, "func", ast.Name("any", ast.Load()))
        case ast.Call(func=ast.Name(id="min")):
            yield line, "max for min", _set(node, "func", ast.Name("max", ast.Load()))
        case ast.Call(func=ast.Name(id="max")):
            yield line, "min for max", _set(node, "func", ast.Name("min", ast.Load()))
        case _:
            return


def _is_nothing(value: ast.expr) -> bool:
    """None, or False, for which True is tried."""
    return isinstance(value, ast.Constant) and (value.value is None or value.value is False)


def _nothing(value: ast.expr) -> ast.expr:
    """None; the code still names what the value named, as a function's code has to."""
    return ast.BoolOp(ast.And(), [ast.Constant(None), value])


def _word(node: ast.AST) -> str:
    return type(node).__name__


def _set(node: ast.AST, name: str, value: object) -> Edit:
    return lambda: setattr(node, name, value)


def _put(listed: list[ast.cmpop], at: int, value: ast.cmpop) -> Edit:
    return lambda: listed.__setitem__(at, value)


def _unnot(node: ast.UnaryOp) -> Edit:
    """`not x` becomes `not not x`: the same type of result, and the other truth."""
    inner = node.operand
    return lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), inner))


def _swap(node: ast.IfExp, body: ast.expr, orelse: ast.expr) -> Edit:
    def swap() -> None:
        node.body, node.orelse = orelse, body

    return swap


def written(mutant: Mutant) -> str:
    """The text of the module with the change, as `ast` writes it: without comments."""
    tree = _parse(mutant.path)
    next(p for number, p in enumerate(_places(tree)) if number == mutant.number).edit()
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
