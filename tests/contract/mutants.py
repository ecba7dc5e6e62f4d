"""Contract files as found in the wild, drawn by a seed and a number, and how far each comes.

`make fuzz` runs 100,000 (`test_fuzz`). Four kinds of file: bytes and lines of valid contracts
changed, their structure changed, expressions drawn from the grammar, and noise. Whatever the file,
the answer is one of ours and takes less than a second of the processor.
"""

from __future__ import annotations

import copy
import json
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from ruamel.yaml import YAML

from statediff.contract.authoring.explain import explain
from statediff.contract.authoring.formatting import format_contract
from statediff.contract.document.jsonschema import contract_schema
from statediff.contract.file import parse_contract
from statediff.contract.language.names import FUNCTIONS
from statediff.contract.lint import lint_contract
from statediff.contract.lint.subject import Subject
from statediff.errors import ContractError, Problem
from statediff.kernel import compile_contract, schema_of
from statediff.model.schema import Schema
from statediff.reports.contracts import as_text
from statediff.workspace.trials import base_state, open_sandbox
from tests.contract.grammar import Grammar, small_contract

ROOT: Final = Path(__file__).resolve().parents[2]
_OF_AN_EXTRA = frozenset({"chat", "cloud", "erp", "office", "payments"})
"""Packs whose servers may not be installed: their contracts are bound to no schema then."""
SECONDS: Final = 1.0
KINDS: Final = {"bytes": 35, "structure": 30, "grammar": 25, "noise": 10}
"""The kinds of file and how many of a hundred are of it."""

EVERY_WORD: Final = b"""\
contract: fuzz/language
version: 1.0.0
owner: tests
intent: Say in prose what was refunded, and note it.
prompt: Refund order {order}; write {{order}} as it is.
inputs: {order: 1009, tags: [a, b]}
forbid:
  - {id: kept-customer, delete: customer}
  - {id: none, update: product, where: 'search(lower(it.name), "b+")'}
  - id: no-way
    create: customer_tag
    where: reaches(it.customer, it.tag, via=[(customer_tag.customer, customer_tag.tag)])
require:
  - id: noted
    update: order
    where: it.id == input.order and it.id != 3
    set: {status: paid}
    that: count(new.status, "paid") == 1
  - id: texts
    update: order
    that: >-
      new.status == it.status + "; " + input.tags[0] and
      same_items([o.id for o in after.order], [1, 2]) and input.tags[len(input.tags) - 1] == "b"
      and timestamp(it.status) < timestamp("2026-01-31T12:00:00Z")
effects:
  - on: create refund
    reversibility: irreversible
    authorized_by: any(a.active for a in before.staff)
    actor: exists(before.staff[1])
    compensation: {tool: shop_db_execute, arguments: {sql: "DELETE FROM refunds"}, leaves: [refund]}
actions: {allow: {classes: [read]}, over: recorded}
answer:
  extract: {total: "total {number}", who: [Ada], said: quoted}
  claims: [answer.total == 39, 'mentions(answer.text, "Ada")']
"""

FRAGMENTS: Final = [
    b"&a ", b"*a", b"<<: ", b"!!python/object:os.system ", b"%YAML 1.1\n", b"---\n", b"...\n",
    b"? ", b"- ", b": ", b" #", b"{", b"}", b"[", b"]", b"'", b'"', b"|\n", b">-\n", b"\t",
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\\U00110000", b"0x", b"1e999999999", b".nan", b"~",
    b"null", b"true", b"yes", b"999999999999999999999999999", b"it.", b"it.it.it",
    b"before.order[", b"after.", b"them", b"new.", b"((((((((((", b"))))))))))", b" and ",
    b" or not ", b" == ", b" in ", b"lambda x: x", b"__class__", b"{'a': 1}", b"f'{x}'",
    b"1 if 2 else 3", b"(x for x in before.order)", b"sum(", b"matches(it.body, ", b"'(a+)+$')",
    b"x" * 5000, b"[" * 200, b"a: " * 50, b"\xe2\x80\xae", b"\xe2\x80\x8b", b"\xed\xa0\x80",
    b"create: ", b"any_of: ", b"count: -1", b"count: 10000000000000000000000", b"input.order",
    b"${x}", b"{{ 7*7 }}", b"timestamp('x')", b"within(1, 2, 3)", b" * 9 ** 9 ** 9", b"@", b"`",
    b"\r\n", b"\r", b"answer.text", b"${type}",
    b"extract: {}", b"extract: {total: number, who: [A]}",
    b"new.body == it.body + 'x'", b"count(it.body, 'a')", b"lower(", b"search(it.body, '(a+)+$')",
    b"same_items([x.id for x in before.order], [1])",
    b"it.tags[len(it.tags) - 1]",
    b"timestamp(it.body)", b"timestamp(", b"date(it.body)", b"mentions(answer.text, it.body)",
    b"it.body + 'x'", b"[1] + it.id", b"{{order}}", b"noop: true\n",
    b"reaches(it, it, via=[order.customer])", b"via=[(", b"over: recorded", b"actor: true",
]  # fmt: skip


# ---------------------------------------------------------------- seeds


@dataclass(frozen=True)
class Seed:
    """A valid contract, and the sandbox that its names are of."""

    data: bytes
    sandbox: str


@cache
def seeds() -> tuple[Seed, ...]:
    """Contracts of packs and of fixtures in the packs' sandboxes, and one that has every word."""
    shipped = {path.name for path in (ROOT / "sandboxes").iterdir() if path.is_dir()}
    paths = (
        path
        for folder in ("contracts", "fixtures")
        for path in sorted((ROOT / folder).rglob("contract.yaml"))
        if not _OF_AN_EXTRA.intersection(path.parts)
    )
    found = []
    for path in paths:
        data = path.read_bytes()
        named = re.search(rb"^sandbox: (\w+)$", data, re.MULTILINE)
        sandbox = named[1].decode() if named else "shop"
        if sandbox in shipped:
            found.append(Seed(data, sandbox))
    return (*found, Seed(EVERY_WORD, "shop"))


@cache
def schema(sandbox: str) -> Schema:
    """The schema that a contract of the sandbox is bound to."""
    with open_sandbox(sandbox) as running:
        return schema_of(base_state(running))


@cache
def _tree(data: bytes) -> Any:
    return YAML(typ="safe", pure=True).load(data)


@cache
def _parts() -> Mapping[str, list[Any]]:
    """The values under each key anywhere in the seeds: to be put elsewhere."""
    found: dict[str, list[Any]] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                found.setdefault(str(key), []).append(inner)
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    for seed in seeds():
        walk(_tree(seed.data))
    return found


@cache
def words() -> Sequence[str]:
    """Every key that the published JSON Schema knows."""
    shapes = contract_schema()["$defs"].values()
    return sorted({key for shape in shapes for key in shape.get("properties", ())})


# ---------------------------------------------------------------- mutants


_SIGNS: Final = (
    "", " ", "\n", ": ", "- ", "[", "]", "{", "}", "#", "'", '"', "&a ", "*a", "!t ", "~", "5",
    "1.5", "true", "\t", "é", "\u202e", ", ", "<<: ", "---\n",
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, text: str, *more: str) -> str:
    """The text with a few signs of YAML, or more, in the place of others."""
    for _ in range(draw(st.integers(1, 4))):
        at, removed = draw(st.integers(0, len(text))), draw(st.integers(0, 6))
        text = text[:at] + draw(st.sampled_from((*_SIGNS, *more))) + text[at + removed :]
    return text


@dataclass(frozen=True)
class Mutant:
    """A file to read."""

    kind: str
    data: bytes
    sandbox: str = "shop"


def mutant(seed: int, number: int) -> Mutant:
    """The file of this number; the same on every machine."""
    draw = random.Random(f"{seed}/{number}")
    (kind,) = draw.choices(list(KINDS), list(KINDS.values()))
    match kind:
        case "bytes":
            chosen = draw.choice(seeds())
            data = bytearray(chosen.data)
            for _ in range(draw.choice((1, 1, 1, 1, 2, 2, 3, 8))):
                _mutate(data, draw)
            return Mutant(kind, bytes(data), chosen.sandbox)
        case "structure":
            chosen = draw.choice(seeds())
            tree = copy.deepcopy(_tree(chosen.data))
            for _ in range(draw.choice((1, 1, 1, 2, 2, 4))):
                tree = _restructured(tree, draw)
            return Mutant(kind, _written(tree).encode("utf-8", "surrogatepass"), chosen.sandbox)
        case "grammar":
            return Mutant(kind, small_contract(Grammar(schema("shop"), draw)).encode())
        case _:
            noise = (draw.choice(FRAGMENTS) for _ in range(draw.randrange(1, 60)))
            return Mutant(kind, b"".join(noise))


def _mutate(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data) + 1)
    lines = data.split(b"\n")
    match draw.randrange(12):
        case 0:
            data[at : at + draw.randrange(1, 20)] = b""
        case 1:
            data[at:at] = draw.choice(FRAGMENTS)
        case 2 if data:
            data[min(at, len(data) - 1)] = draw.randrange(256)
        case 3:
            del lines[draw.randrange(len(lines))]
            data[:] = b"\n".join(lines)
        case 4:
            lines.insert(draw.randrange(len(lines)), draw.choice(lines))
            data[:] = b"\n".join(lines)
        case 5:
            which = draw.randrange(len(lines))
            lines[which] = b" " * draw.randrange(5) + lines[which].lstrip()
            data[:] = b"\n".join(lines)
        case 6:
            other = draw.choice(seeds()).data.split(b"\n")
            lines[draw.randrange(len(lines))] = draw.choice(other)
            data[:] = b"\n".join(lines)
        case kind:
            found = [word for word in bytes(data).split() if len(word) > 1]
            if found:
                old = draw.choice(found)
                new = draw.choice(FRAGMENTS if kind == 7 else found)
                data[:] = bytes(data).replace(old, new, 1)


Step = str | int
ODD_VALUES: Final = (None, True, 0, -1, 10**30, "", "x" * 2000, "2026-01-01")


def _places(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    if isinstance(value, dict | list):
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        for step, inner in steps:
            yield (*path, step)
            yield from _places(inner, (*path, step))


def _restructured(tree: Any, draw: random.Random) -> Any:
    """The document after one change of its structure; it is still well-formed YAML."""
    places = list(_places(tree))
    if not places:
        return draw.choice((None, [], {}, "x", 1, [tree]))
    path = draw.choice(places)
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    step = path[-1]
    key = next((str(s) for s in reversed(path) if isinstance(s, str)), "")
    match draw.randrange(12):
        case 0:
            del holder[step]
        case 1 if isinstance(holder, list):
            holder.insert(draw.randrange(len(holder) + 1), copy.deepcopy(draw.choice(holder)))
        case 1 | 2:  # what stands under this key somewhere else
            holder[step] = copy.deepcopy(draw.choice(_parts().get(key, [None])))
        case 3 if isinstance(holder, dict):
            holder[draw.choice(words())] = holder.pop(step)
        case 3 | 4 if isinstance(holder, dict):
            added = draw.choice(words())
            holder[added] = copy.deepcopy(draw.choice(_parts().get(added, [True])))
        case 5:
            wrapped = ([holder[step]], {"is": holder[step]}, {str(key): holder[step]}, [[[[]]]])
            holder[step] = draw.choice((*ODD_VALUES, [], {}, *wrapped))
        case 6:
            text = draw.choice(FRAGMENTS).decode("utf-8", "replace")
            holder[step] = text if draw.random() < 0.5 else f"{holder[step]}{text}"
        case _:
            texts = [p for p in places if isinstance(_at(tree, p), str)]
            place = draw.choice(texts or [path])
            end = tree
            for inner in place[:-1]:
                end = end[inner]
            end[place[-1]] = _retold(str(end[place[-1]]), draw)
    return tree


def _at(tree: Any, path: tuple[Step, ...]) -> Any:
    for step in path:
        tree = tree[step]
    return tree


EXPRESSION_WORDS: Final = (
    *("before", "after", "it", "new", "them", "null", "input", "answer", "calls"),
    *("0", "1.5", '"a"', "==", "<", "in", "not", "and", "-", "+", "[", "]", "(", ")"),
)
_TOKEN: Final = re.compile(r"\s+|\w+|[^\w\s]")


def _retold(text: str, draw: random.Random) -> str:
    """A text with one of its words exchanged, dropped or doubled: an expression nearly always."""
    tokens = _TOKEN.findall(text)
    if not tokens:
        return "it.id == 1"
    at = draw.randrange(len(tokens))
    match draw.randrange(4):
        case 0:
            tokens[at] = draw.choice(tokens)
        case 1:
            tokens[at] = draw.choice((*FUNCTIONS, *EXPRESSION_WORDS))
        case 2:
            del tokens[at]
        case _:
            tokens[at:at] = tokens[at : at + draw.randrange(1, 8)]
    return "".join(tokens)


def _written(value: Any, depth: int = 0) -> str:
    """The tree as YAML in block style; texts in double quotes, as JSON has them."""
    margin = "  " * depth
    if isinstance(value, dict) and value:
        lines = (f"{margin}{json.dumps(str(k))}:{_below(v, depth)}" for k, v in value.items())
    elif isinstance(value, list) and value:
        lines = (f"{margin}-{_below(v, depth)}" for v in value)
    else:
        return margin + json.dumps(value, default=str, ensure_ascii=False)
    return "\n".join(lines)


def _below(value: Any, depth: int) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + _written(value, depth + 1)
    return " " + json.dumps(value, default=str, ensure_ascii=False)


# ---------------------------------------------------------------- the answer


def through(data: bytes, schema: Schema) -> str:
    """How far a file comes; every error is one of ours, with a place and words."""
    problems: tuple[Problem, ...] = ()
    try:
        file = parse_contract(data, "c.yaml")
    except ContractError as error:
        problems = error.problems
    assert all(p.line >= 1 and p.column >= 1 and p.message for p in problems)
    if problems:
        return "no contract"
    try:
        format_contract(data, "c.yaml")
    except ContractError as error:
        problems = error.problems
    assert {p.code for p in problems} <= {"unformattable"}
    compiled = None
    try:
        compiled = compile_contract(file, schema)
    except ContractError as error:
        problems = error.problems
    assert all(p.line >= 1 and p.column >= 1 and p.message for p in problems)
    if compiled is None:
        return "not of the schema"
    lint_contract(Subject(file.source, compiled.contract))
    as_text(explain(file.source, compiled.contract))
    return "bound"


@dataclass
class Outcome:
    """The outcome of the files: how many came how far, by kind, and what is wrong."""

    reached: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def run(seed: int, first: int, count: int) -> Outcome:
    """The files of these numbers, each tried."""
    found = Outcome()
    for number in range(first, first + count):
        made = mutant(seed, number)
        start = time.process_time()
        try:
            end = through(made.data, schema(made.sandbox))
        except Exception:  # noqa: BLE001 - that it is none of ours is what is looked for
            end = "uncaught"
            found.wrong.append(f"{seed}/{number} {made.kind}: {traceback.format_exc()[-700:]}")
        spent = time.process_time() - start
        found.reached[made.kind, end] += 1
        if spent >= SECONDS and sys.gettrace() is None:  # to note each line takes time
            found.wrong.append(f"{seed}/{number} {made.kind}: {spent:.2f} s")
    return found
