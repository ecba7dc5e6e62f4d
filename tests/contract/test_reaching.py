"""`reaches`: what it is typed to, what it decides over known and unknown hops, and its path."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statediff.contract.evaluation.evaluate import outcomes
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EvalContext,
    Trail,
    Unknown,
    Way,
)
from statediff.contract.language.english import operand
from statediff.contract.language.kinds import ExpressionError
from statediff.contract.language.names import Policy, Scope
from statediff.contract.language.parser import parse
from statediff.contract.language.syntax import EntityT, Reaches, Read, footprint
from statediff.contract.language.written import text_of
from statediff.kernel.policy.witness import compared
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.sentences import sentence
from statediff.model.state import COMPLETE, Coverage, Enumeration, MemoryChunks, State, build_table
from statediff.model.trace import NoAnswer
from statediff.model.values import Unobserved
from statediff.model.view import Ledger, RecordingView, Scan, StateView, View
from tests.explaining import in_words


def _type(name: str, key: str, *references: str, **extra: Any) -> EntityType:
    """A type of integer fields; `a:b` is a reference a to the type b, `a` a plain field."""
    keys = tuple(key.split())
    pairs = [
        each.partition(":")[::2]
        for each in (*(k for k in keys if f"{k}:" not in " ".join(references)), *references)
    ]
    fields = tuple(
        Field(n, Kind.INT, is_nullable=n not in keys, reference=to or None) for n, to in pairs
    )
    return EntityType(name, keys, fields, **extra)


USER = _type("user", "id", "manager:user", "age")
GROUP = _type("group", "id", "lead:user")
ROLE = _type("role", "id")
MEMBERSHIP = _type("membership", "user group", "user:user", "group:group", is_association=True)
NESTING = _type("nesting", "id", "child:group", "parent:group")
GRANT = _type("grant", "id", "group:group", "role:role")
NOTE = EntityType("note", (), (Field("about", Kind.INT, reference="user"),))
SCHEMA = Schema("s", "1", (GRANT, GROUP, MEMBERSHIP, NESTING, NOTE, ROLE, USER))
VIA = (
    "[(membership.user, membership.group), (nesting.child, nesting.parent), "
    "(grant.group, grant.role)]"
)
GONE = Enumeration(Coverage.INCOMPLETE, "cut short")
HIDDEN = Unobserved("not asked for")


def _parsed(text: str, schema: Schema = SCHEMA, **variables: str) -> Reaches:
    named = {name: EntityT(of) for name, of in variables.items()}
    node = parse(text, Scope(schema, {"user": 1}, variables=named))
    assert isinstance(node, Reaches)
    return node


def _view(
    tables: dict[str, list[dict[str, Any]]], schema: Schema = SCHEMA, **enumerations: Enumeration
) -> StateView:
    built = {}
    for entity in schema.types:
        blank: dict[str, Any] = {f.name: None for f in entity.fields}
        rows = [{**blank, **row} for row in tables.get(entity.name, [])]
        enumeration = enumerations.get(entity.name, COMPLETE)
        built[entity.name] = build_table(entity, rows, MemoryChunks(), enumeration=enumeration)
    return StateView(State(schema, built))


def _context(view: View) -> EvalContext:
    return EvalContext(
        view,
        view,
        NoAnswer("none"),
        fields_of=lambda t: tuple(view.schema.by_name[t].by_name),
        trail=Trail(),
    )


# ---------------------------------------------------------------- what it is typed to


def test_an_author_writes_and_reads_it_as_it_is() -> None:
    text = f"reaches(it.user, after.role[7], via={VIA})"
    node = _parsed(text, it="membership")
    assert text_of(node) == text
    assert operand(node) == f"`{text}`"


def test_its_footprint_has_every_type_that_it_walks() -> None:
    reads = footprint(_parsed(f"reaches(after.user[input.user], after.role[7], via={VIA})"))
    for entity, fields in {
        "membership": ("user", "group"),
        "nesting": ("child", "parent"),
        "grant": ("group", "role"),
    }.items():
        assert {Read("after", entity, name) for name in ("", *fields)} <= reads
    assert not any(read.root == "before" for read in reads)


USERS = "after.user[1], after.user[2]"
HOLDS_ROLE = "after.user[1], after.role[2]"
CROSSED = "(membership.user, grant.role)"
JOINED = "(membership.user, membership.group)"


@pytest.mark.parametrize(
    ("inside", "message", "at"),
    [
        (USERS, "takes two entities and `via`", "reaches"),
        ("after.user[1], via=[user.manager]", "takes two entities and `via`", "reaches"),
        (f"{USERS}, by=[user.manager]", "takes two entities and `via`", "reaches"),
        (f"{USERS}, via=[]", "`via` is a list of hops", "[]"),
        (f"{USERS}, via=user.manager", "`via` is a list", "user.manager"),
        ("1, after.user[2], via=[user.manager]", "this is a number", "1,"),
        ("after.user, after.user[2], via=[user.manager]", "a collection of user", "after.user,"),
        ("after.user[1].age, after.user[2], via=[user.manager]", "to an entity", "after.user[1]"),
        ("after.user[1], before.user[2], via=[user.manager]", "is of one state", "before.user"),
        (f"{USERS}, via=[usr.manager]", "unknown entity type `usr`", "usr.manager"),
        (f"{USERS}, via=[user.manger]", "user has no field `manger`", "user.manger"),
        (f"{USERS}, via=[user.age]", "user.age refers to no entity", "user.age"),
        (f"{USERS}, via=[user.id]", "the key of user leads nowhere", "user.id"),
        (f"{USERS}, via=[note.about]", "note has no key", "note.about"),
        (f"{USERS}, via=[3]", "a hop is TYPE.REFERENCE", "3"),
        (f"{USERS}, via=[(user.manager, user.manager)]", "not to itself", "(user.manager"),
        (f"{HOLDS_ROLE}, via=[{CROSSED}]", "not of membership and grant", "(membership.user"),
        (f"{HOLDS_ROLE}, via=[{JOINED}]", "from user to role, but to group", "[(membership"),
        (f"{HOLDS_ROLE}, via=[(grant.role, grant.group)]", "but to nothing", "[(grant"),
    ],
)
def test_what_can_be_no_path_is_refused_at_its_place(inside: str, message: str, at: str) -> None:
    text = f"reaches({inside})"
    with pytest.raises(ExpressionError) as raised:
        _parsed(text)
    assert message in str(raised.value)
    assert raised.value.offset == text.index(at)


def test_a_misspelt_name_is_answered_with_the_near_one() -> None:
    for name, hint in (("membership.grup", "group"), ("membrship.group", "membership")):
        with pytest.raises(ExpressionError) as raised:
            _parsed(f"reaches(after.user[1], after.group[2], via=[(membership.user, {name})])")
        assert raised.value.hint == f"did you mean `{hint}`?"
        assert raised.value.code == "unknown-name"


def test_a_field_outside_the_boundary_is_no_hop() -> None:
    outside = Policy(
        excluded=lambda t, f: "exclude: noise" if (t, f) == ("user", "manager") else None
    )
    scope = Scope(SCHEMA, policy=outside)
    with pytest.raises(ExpressionError, match="outside the boundary"):
        parse("reaches(after.user[1], after.user[2], via=[user.manager])", scope)


# ---------------------------------------------------------------- what it decides

COMPANY: dict[str, list[dict[str, Any]]] = {
    "user": [{"id": 1, "manager": 2}, {"id": 2, "manager": 3}, {"id": 3}, {"id": 4, "manager": 9}],
    "group": [{"id": n} for n in range(1, 6)],
    "role": [{"id": 7}, {"id": 8}],
    "membership": [{"user": 1, "group": 1}, {"user": 2, "group": 5}],
    "nesting": [
        {"id": 1, "child": 1, "parent": 3},
        {"id": 2, "child": 1, "parent": 2},
        {"id": 3, "child": 3, "parent": 4},
        {"id": 4, "child": 2, "parent": 4},
        {"id": 5, "child": 4, "parent": 1},
    ],
    "grant": [{"id": 1, "group": 4, "role": 7}],
}


def _mask(
    text: str, tables: dict[str, list[dict[str, Any]]] = COMPANY, **enumerations: Enumeration
) -> int:
    return outcomes(_parsed(text), _context(_view(tables, **enumerations)), {})


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        (f"reaches(after.user[1], after.role[7], via={VIA})", TRUE),
        (f"reaches(after.user[2], after.role[7], via={VIA})", FALSE),
        (f"reaches(after.user[1], after.role[8], via={VIA})", FALSE),
        ("reaches(after.user[1], after.user[3], via=[user.manager])", TRUE),
        ("reaches(after.user[3], after.user[1], via=[user.manager])", FALSE),
        ("reaches(after.user[3], after.user[1], via=[(user.manager, user.id)])", TRUE),
        ("reaches(after.user[1].manager, after.user[3], via=[user.manager])", TRUE),
        ("reaches(after.user[3], after.user[3], via=[user.manager])", TRUE),
        ("reaches(after.user[3].manager, after.user[3], via=[user.manager])", UNDEFINED),
        ("reaches(after.user[4].manager, after.user[3], via=[user.manager])", UNDEFINED),
        ("reaches(after.user[1], after.user[77], via=[user.manager])", UNDEFINED),
    ],
)
def test_a_chain_of_hops_leads_there_or_not(text: str, mask: int) -> None:
    assert _mask(text) == mask


def test_the_path_is_the_shortest_and_of_these_the_first_by_its_keys() -> None:
    node = _parsed(f"reaches(after.user[1], after.role[7], via={VIA})")
    context = _context(_view(COMPANY))
    assert outcomes(node, context, {}) == TRUE
    [seen] = context.seen
    assert sentence(compared(seen)) == (
        "user 1 reaches role 7 by membership (1, 1) → group 1; nesting 2 → group 2; "
        "nesting 4 → group 4; grant 1 → role 7"
    )
    assert [(ref.type, ref.key) for ref in seen.entity_refs] == [
        ("user", (1,)),
        ("membership", (1, 1)),
        ("nesting", (2,)),
        ("nesting", (4,)),
        ("grant", (1,)),
        ("role", (7,)),
    ]


def test_a_reference_is_a_hop_that_its_path_names() -> None:
    context = _context(_view(COMPANY))
    outcomes(_parsed("reaches(after.user[1], after.user[3], via=[user.manager])"), context, {})
    assert sentence(compared(context.seen[0])) == (
        "user 1 reaches user 3 by user.manager → user 2; user.manager → user 3"
    )
    assert (
        outcomes(_parsed("reaches(after.user[3], after.user[1], via=[user.manager])"), context, {})
        == FALSE
    )
    assert sentence(compared(context.seen[1])) == "user 3 does not reach user 1"


def test_of_a_long_path_the_first_steps_are_shown_and_the_others_counted() -> None:
    chain = {"user": [{"id": n, "manager": n - 1 or None} for n in range(1, 5_000)]}
    context = _context(_view(chain))
    node = _parsed("reaches(after.user[4999], after.user[1], via=[user.manager])")
    assert outcomes(node, context, {}) == TRUE
    words = sentence(compared(context.seen[0]))
    assert words.startswith("user 4999 reaches user 1 by user.manager → user 4998; user.manager")
    assert words.endswith("→ user 4989; and 4988 more")
    assert len(context.seen[0].entity_refs) == 12


def test_a_row_that_is_marked_deleted_is_a_row_as_in_every_expression() -> None:
    marked = _type("nesting", "id", "child:group", "parent:group", "gone", deleted_when="gone")
    schema = Schema("s", "1", (GROUP, marked, USER))
    tables = {
        "group": [{"id": 1}, {"id": 2}],
        "nesting": [{"id": 1, "child": 1, "parent": 2, "gone": 1}],
    }
    node = _parsed(
        "reaches(after.group[1], after.group[2], via=[(nesting.child, nesting.parent)])", schema
    )
    assert outcomes(node, _context(_view(tables, schema)), {}) == TRUE
    other = parse("any(n.child == 1 and n.parent == 2 for n in after.nesting)", Scope(schema))
    assert outcomes(other, _context(_view(tables, schema)), {}) == TRUE


def test_what_may_be_is_not_known_and_names_what_is_missing() -> None:
    text = f"reaches(after.user[2], after.role[7], via={VIA})"
    tables = {**COMPANY, "nesting": [*COMPANY["nesting"], {"id": 6, "child": 5, "parent": HIDDEN}]}
    context = _context(_view(tables))
    assert outcomes(_parsed(text), context, {}) == TRUE | FALSE
    assert in_words(context.causes) == ["nesting.parent after: not asked for"]
    context = _context(_view(COMPANY, nesting=GONE))
    assert outcomes(_parsed(text), context, {}) == TRUE | FALSE
    assert in_words(context.causes) == ["nesting after: cut short"]
    # What leads nowhere near is no doubt, and a path that is known is no less one.
    assert _mask(f"reaches(after.user[3], after.role[7], via={VIA})", tables) == FALSE
    assert (
        _mask(
            f"reaches(after.user[1], after.role[7], via={VIA})", tables, membership=GONE, user=GONE
        )
        == TRUE
    )
    # Of an entity whose row is known the references are known, however many others there may be.
    assert _mask("reaches(after.user[3], after.user[1], via=[user.manager])", user=GONE) == FALSE
    assert _mask("reaches(after.user[1], after.user[4], via=[user.manager])", user=GONE) == FALSE
    lost = {**COMPANY, "user": [{"id": 1, "manager": 6}, {"id": 2}]}
    assert (
        _mask("reaches(after.user[1], after.user[2], via=[user.manager])", lost, user=GONE)
        == TRUE | FALSE
    )
    assert _mask("reaches(after.user[1], after.user[2], via=[user.manager])", lost) == FALSE


def test_an_end_that_is_not_known_decides_nothing() -> None:
    node = _parsed("reaches(it, after.user[3], via=[user.manager])", it="user")
    for end in (
        EntityRef("after", "user", (), None, "some user"),
        Unknown(frozenset({"not seen"}), False),
    ):
        context = _context(_view(COMPANY))
        assert outcomes(node, context, {"it": end}) == TRUE | FALSE
        assert context.causes
    context = _context(_view(COMPANY))
    assert (
        outcomes(node, context, {"it": Unknown(frozenset({"not seen"}))})
        == TRUE | FALSE | UNDEFINED
    )


def test_whole_types_are_read_for_every_clause_that_walks_them() -> None:
    ledger = Ledger()
    view = RecordingView(_view(COMPANY), "after", ledger)
    context = _context(view)
    node = _parsed("reaches(after.user[1], after.user[3], via=[user.manager])")
    for clause in ("one", "two"):
        ledger.begin(clause)
        outcomes(node, context, {})
    expected = {Scan("after", "user", ("id", "manager", "age"))}
    assert ledger.scans == {"one": expected, "two": expected}


class _Rows:
    """A view that shows rows only, as a bundle's does."""

    def __init__(self, view: StateView) -> None:
        self.schema, self.enumeration = view.schema, view.enumeration
        self.row, self.rows = view.row, view.rows


# ---------------------------------------------------------------- laws

NODE = _type("node", "id", "next:node")
EDGE = _type("edge", "id", "a:node", "b:node")
GRAPH = Schema("g", "1", (EDGE, NODE))
WALK = _parsed("reaches(before.node[1], before.node[2], via=[(edge.a, edge.b), node.next])", GRAPH)


def _drawn(random: random.Random) -> tuple[dict[str, list[dict[str, Any]]], Enumeration]:
    """A graph of which at most two fields are unknown, and whether its edges are all there."""
    nodes = random.randint(2, 6)
    some = [None, *range(1, nodes + 1), nodes + 1]
    edges = [
        {"id": n, "a": random.choice(some), "b": random.choice(some)}
        for n in range(random.randint(0, nodes + 3))
    ]
    rows = [
        {"id": n, "next": random.choice(some) if random.random() < 0.3 else None}
        for n in range(1, nodes + 1)
    ]
    places = [*((row, name) for row in edges for name in "ab"), *((row, "next") for row in rows)]
    for row, name in random.sample(places, random.choice((0, 1, 1, 1, 2))):
        row[name] = HIDDEN
    return {"node": rows, "edge": edges}, GONE if random.random() < 0.15 else COMPLETE


def _completions(
    tables: dict[str, list[dict[str, Any]]], enumeration: Enumeration
) -> Iterator[bool]:
    """Yields True if node 1 reaches node 2, for each world that agrees with what was observed."""
    nodes = [row["id"] for row in tables["node"]]
    unknown = [
        (row, name)
        for rows in tables.values()
        for row in rows
        for name in row
        if row[name] is HIDDEN
    ]
    extra: Sequence[tuple[int, int] | None] = [None]
    if not enumeration.is_complete:
        extra = [None, *product(nodes, nodes)]
    for values in product([None, *nodes, 99], repeat=len(unknown)):
        filled = {
            (id(row), name): value for (row, name), value in zip(unknown, values, strict=True)
        }
        pairs = [
            tuple(filled.get((id(row), name), row[name]) for name in ends)
            for rows, ends in ((tables["edge"], "ab"), (tables["node"], ("id", "next")))
            for row in rows
        ]
        for more in extra:
            graph = nx.DiGraph()
            graph.add_nodes_from(nodes)
            graph.add_edges_from(pair for pair in (*pairs, more) if pair and None not in pair)
            yield nx.has_path(graph, 1, 2)


@settings(max_examples=5 * settings().max_examples)  # 10,000 under `make fuzz`
@given(st.randoms(use_true_random=False))
def test_it_agrees_with_every_completion_by_networkx(random: random.Random) -> None:
    agrees(*_drawn(random))


def agrees(tables: dict[str, list[dict[str, Any]]], enumeration: Enumeration) -> None:
    """Decided is what every completion says; unknown is what two of them say otherwise."""
    view = _view(tables, GRAPH, edge=enumeration)
    context = _context(view)
    mask = outcomes(WALK, context, {})
    found = set(_completions(tables, enumeration))
    assert mask == (TRUE if True in found else 0) | (FALSE if False in found else 0)
    assert bool(context.causes) == (mask == TRUE | FALSE)
    by_rows = _context(_Rows(view))
    assert outcomes(WALK, by_rows, {}) == mask
    assert by_rows.seen == context.seen
    assert by_rows.causes == context.causes
    _is_a_path(context, tables)


def _is_a_path(context: EvalContext, tables: dict[str, list[dict[str, Any]]]) -> None:
    """The way that is shown is one: each hop begins where the one before it ended."""
    [seen] = context.seen
    assert isinstance(seen.right, Way)
    if seen.right.steps is None:
        return
    at, graph = 1, nx.DiGraph()
    for rows, ends in ((tables["edge"], "ab"), (tables["node"], ("id", "next"))):
        graph.add_edges_from(
            (row[ends[0]], row[ends[1]])
            for row in rows
            if all(isinstance(row[name], int) for name in ends)
        )
    for hop, ref, led in seen.right.steps:
        assert ref.row is not None
        assert ref.row[hop.source or "id"] == at
        [at] = led
    assert at == 2
    assert len(seen.right.steps) == seen.right.length == nx.shortest_path_length(graph, 1, 2)


def test_the_order_of_rows_changes_nothing() -> None:
    for seed in range(40):
        drawn = random.Random(seed)
        tables, enumeration = _drawn(drawn)
        seen = []
        for _ in range(2):
            context = _context(_view(tables, GRAPH, edge=enumeration))
            seen.append((outcomes(WALK, context, {}), context.seen, context.causes))
            for rows in tables.values():
                drawn.shuffle(rows)
        assert seen[0] == seen[1]
