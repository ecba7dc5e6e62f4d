"""Laws of judging inside values: spellings, patches, frames and evidence that is taken away."""

from __future__ import annotations

import json
import random
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.document.contract import Canonicalize
from statediff.kernel.canonicalize.book import RuleBook
from statediff.kernel.canonicalize.rules import rule_book
from statediff.kernel.diff import diff
from statediff.model.nested import Change, apply
from statediff.model.paths import Every, Item, Selection, leaves, render, selects
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import State
from statediff.model.values import ABSENT, Unobserved, Unordered, is_value, same
from tests.judging import CUT, DARK, MATCH, run, state

THING: Final = EntityType("thing", ("id",), (Field("id", Kind.INT), Field("doc", Kind.JSON)))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(0, 2), st.sampled_from(["", "a", " a ", "1"])
)
KEYS = st.sampled_from(["a", "b", "c d"])
INNER: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=5,
)
LINE = st.fixed_dictionaries(
    {"k": st.sampled_from([1, 2, "1", "x", True])}, optional={"n": SCALARS, "in": INNER}
)
LINES = st.one_of(
    st.lists(LINE, max_size=3, unique_by=lambda line: json.dumps(line["k"])),
    st.lists(st.one_of(LINE, INNER), max_size=3),
)
DOCS = st.fixed_dictionaries({}, optional={"lines": LINES, "a": INNER, "b": INNER, "c d": INNER})


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """A document and what it became: often the same, but for one member."""
    before = draw(DOCS)
    if draw(st.booleans()):
        return before, draw(DOCS)
    name = draw(st.sampled_from(["lines", "a", "b"]))
    after = {**before, name: draw(LINES if name == "lines" else INNER)}
    return before, after


def spelled(tree: Any, rng: random.Random, *, has_order: bool = True) -> str:
    """The JSON in some spelling; without order, a list under `lines` is in any."""
    match tree:
        case dict():
            members = list(tree.items())
            rng.shuffle(members)
            parts = []
            for name, inner in members:
                in_order = has_order or name != "lines"
                held = inner if in_order else rng.sample(inner, len(inner))
                space = rng.choice(["", " ", "\n\t"])
                parts.append(f"{json.dumps(name)}{space}:{spelled(held, rng)}")
            return "{" + ",".join(parts) + rng.choice(["", " "]) + "}"
        case list():
            return "[" + ", ".join(spelled(inner, rng) for inner in tree) + "]"
        case bool() | None:
            return json.dumps(tree)
        case int():
            tenth = f"{tree}0e-1" if tree else "0e-1"
            return rng.choice([str(tree), f"{tree}.0", f"{tree}e0", tenth])
        case _:
            escaped = "".join(f"\\u{ord(c):04x}" for c in tree)
            return f'"{escaped}"' if rng.random() < 0.5 else json.dumps(tree)


def world(*docs: Any) -> State:
    rows = [{"id": number, "doc": doc} for number, doc in enumerate(docs, start=1)]
    return state({"thing": rows}, types=[THING])


BY = st.sampled_from([(), ("k",), ("k", "n")])
"""The members that tell the items of `lines` apart; none: their index does."""


def book(before: State, by: tuple[str, ...], *, trims: bool = False) -> RuleBook:
    key = by if len(by) > 1 else "".join(by)
    rules = [Canonicalize(use="keyed@1", on=("thing.doc.lines",), because="any order", key=key)]
    trim = Canonicalize(use="trim@1", on=("thing.doc.lines[*].n",), because="the form trims")
    return rule_book(before.schema, (*(rules if by else ()), *((trim,) if trims else ())))


def tells_apart(doc: Any, by: tuple[str, ...]) -> bool:
    """True if the members tell the items of its lines apart."""
    items = doc.get("lines", ())
    if not all(isinstance(i, dict) and isinstance(i.get(m), str | int) for i in items for m in by):
        return False
    return len({json.dumps([item[m] for m in by]) for item in items}) == len(items)


@given(DOCS, st.integers(0, 99), BY)
def test_equal_values_give_no_delta_whatever_their_spelling(
    doc: Any, seed: int, by: tuple[str, ...]
) -> None:
    rng = random.Random(seed)
    has_order = not (by and tells_apart(doc, by))
    before = world(spelled(doc, rng))
    after = world(spelled(doc, rng, has_order=has_order))
    found = diff(before, after, book(before, by))
    assert found.deltas == ()
    assert found.doubts == ()


@given(pairs(), BY, st.booleans())
def test_the_deltas_inside_a_value_made_to_it_give_the_value_after(
    pair: Any, by: tuple[str, ...], trims: bool
) -> None:
    before, after = (world(json.dumps(side)) for side in pair)
    nu = book(before, by, trims=trims)
    was, wanted = (nu.value("thing", "doc", json.dumps(side)) for side in pair)
    found = diff(before, after, nu).deltas
    changes = [Change(d.steps, d.before, d.after) for d in found]  # type: ignore[arg-type]
    assert same(apply(was, changes), wanted)  # type: ignore[arg-type]
    assert same(apply(was, reversed(changes)), wanted)  # type: ignore[arg-type]
    assert bool(found) is not same(was, wanted)


@given(pairs(), BY, st.booleans())
def test_what_differs_as_it_was_written_is_a_delta_or_hidden(
    pair: Any, by: tuple[str, ...], trims: bool
) -> None:
    before, after = (world(json.dumps(side)) for side in pair)
    found = diff(before, after, book(before, by, trims=trims))
    assert bool(found.deltas or found.hidden) is (json.dumps(pair[0]) != json.dumps(pair[1]))
    assert len({d.id for d in found.deltas}) == len(found.deltas)
    for hidden in found.hidden:
        inside = [d for d in found.deltas if selects(d.steps, hidden.delta.steps)]
        assert inside == [], "nothing is hidden inside what is shown"


STEPS = st.one_of(
    st.sampled_from(["a", "b", "c d", "lines", "n", "in", 0, 1, *Every]),
    st.sampled_from([1, "1", "x", True]).map(lambda value: Item.of({"k": value})),
    st.tuples(st.sampled_from([1, "1", "x", True]), st.sampled_from([0, 1, "", " a ", False])).map(
        lambda values: Item.of({"k": values[0], "n": values[1]})
    ),
)
SELECTED = st.lists(
    st.one_of(
        st.lists(STEPS, max_size=3).map(tuple),
        st.tuples(st.just("lines"), STEPS),
        st.tuples(st.just("lines"), STEPS, STEPS),
    ),
    min_size=1,
    max_size=3,
)


def is_readable(steps: Selection, by: tuple[str, ...]) -> bool:
    """True if a contract may name it: items of a keyed list have keys, all others indexes."""
    for number, step in enumerate(steps):
        in_lines = steps[:number] in (("lines",), (Every.MEMBER,))
        if isinstance(step, Item) and (steps[:number] != ("lines",) or step.key != by):
            return False
        if isinstance(step, int) and in_lines and by:
            return False
    return True


@given(pairs(), SELECTED, BY)
def test_the_frame_explains_a_delta_exactly_where_a_selected_path_covers_it(
    pair: Any, selected: list[Any], by: tuple[str, ...]
) -> None:
    wanted = [steps for steps in selected if is_readable(steps, by)]
    if not wanted:
        return
    fields = json.dumps([render("doc", steps) for steps in wanted])
    key = f"[{', '.join(reversed(by))}]" if len(by) > 1 else "".join(by)
    section = f"canonicalize: [{{use: keyed@1, key: {key}, on: [thing.doc.lines], because: why}}]\n"
    body = f"{section if by else ''}allow: [{{update: thing, fields: {fields}}}]\n"
    body += "forbid: [{delete: thing}]\n"
    judgement = run(body, *(world(json.dumps(side)) for side in pair)).judgement
    explained = {name for name, by in judgement.explained_by if by}
    for delta in judgement.deltas:
        places = [delta.steps]
        present = [side for side in (delta.before, delta.after) if is_value(side)]  # type: ignore[arg-type]
        if len(present) == 1:
            places = [inner for inner, _ in leaves(present[0], delta.steps)]  # type: ignore[arg-type]
        is_covered = all(any(selects(s, place) for s in wanted) for place in places)
        is_covered |= any(selects(steps, delta.steps) for steps in wanted)
        assert (delta.id in explained) is is_covered
    assert (judgement.verdict is MATCH) is (explained == {d.id for d in judgement.deltas})


KEYED: Final = "canonicalize: [{use: keyed@1, key: k, on: [thing.doc.lines], because: why}]\n"
CLAUSES: Final = (
    "allow: [{update: thing, fields: [doc.a]}]\nforbid: [{delete: thing}]\n",
    """\
allow: [{update: thing, fields: ['doc.lines[*].n', doc.a]}]
forbid: [{update: thing, fields: [doc.b]}]
""",
    f"""\
{KEYED}exclude: [{{what: 'thing.doc.lines[*].in', because: why}}]
allow: [{{update: thing, fields: ['doc.lines[k=x]', doc.a]}}]
require: [{{that: 'after.thing[1].doc.lines[k == 1].n == 1'}}]
""",
    f"""\
{KEYED}allow: [{{update: thing, fields: [doc.lines]}}]
forbid: [{{update: thing, fields: ['doc.lines[k=1].n']}}]
""",
    """\
exclude: [{what: thing.doc.b, because: why}]
derive: [{field: thing.doc.a, is: 'it.doc.lines[0].n', because: why}]
allow: [{update: thing, fields: [doc.lines]}]
forbid: [{delete: thing}]
""",
    """\
frame: {open: nobody minds}
forbid: [{update: thing, fields: ['doc.lines[*].n', doc.a.b]}]
""",
)
GAPS = st.sampled_from(["before", "after"]), st.sampled_from(["cell", "type", "cut", "row"])


@given(st.sampled_from(CLAUSES), pairs(), pairs(), *GAPS)
def test_evidence_that_is_taken_away_makes_no_match(
    body: str, one: Any, two: Any, side: str, gap: str
) -> None:
    docs = {
        moment: [json.dumps(pair[number]) for pair in (one, two)]
        for number, moment in enumerate(("before", "after"))
    }
    whole = run(body, world(*docs["before"]), world(*docs["after"])).judgement.verdict
    sides = {moment: world(*found) for moment, found in docs.items()}
    cells: list[Any] = docs[side]
    if gap == "cell":
        sides[side] = world(Unobserved("torn"), cells[1])
    elif gap == "row":
        sides[side] = state({"thing": [{"id": 2, "doc": cells[1]}]}, {"thing": CUT}, [THING])
    else:
        rows = [{"id": number, "doc": doc} for number, doc in enumerate(cells, start=1)]
        kept = rows if gap == "cut" else []
        sides[side] = state({"thing": kept}, {"thing": CUT if gap == "cut" else DARK}, [THING])
    partial = run(body, sides["before"], sides["after"]).judgement.verdict
    assert partial is not MATCH or whole is MATCH


@given(st.lists(LINE, max_size=4), st.randoms(use_true_random=False), BY.filter(bool))
def test_a_keyed_list_has_one_form_in_any_order_or_keeps_the_order_it_has(
    lines: list[Any], rng: random.Random, by: tuple[str, ...]
) -> None:
    nu = book(world("{}"), by)
    other = rng.sample(lines, len(lines))
    forms = [nu.value("thing", "doc", json.dumps({"lines": each})) for each in (lines, other)]
    items = forms[0].get("lines")  # type: ignore[union-attr]
    assert items is not ABSENT
    if tells_apart({"lines": lines}, by):
        assert isinstance(items, Unordered)
        assert same(*forms)
    else:
        assert not isinstance(items, Unordered)
        assert same(*forms) is (json.dumps(lines) == json.dumps(other))
