"""A bundle shows the states as they were captured, or no replay accepts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.documents import fields_document, key_document
from statediff.evidence.package import Bundle, make
from statediff.evidence.roots import Roots
from statediff.evidence.state_trees import Leaf, Tree, key_texts, row_texts
from statediff.evidence.verify import UNBOUND
from statediff.kernel import replay
from statediff.model.patch import patched
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import MemoryChunks, State, build_table
from statediff.model.values import ABSENT, Digested, Map, Unobserved
from tests.judging import CUT, DIVERGE, LOG, MATCH, capture, item, part, run, state, user

BODY = """\
forbid:
  - id: no-guests
    create: item
    where: before.user[it.owner].role == "guest"
require:
  - {id: made, create: item, where: it.n == 3}
  - {id: positive, that: "all(i.n > 0 for i in after.item)"}
allow:
  - {id: notes, any: log}
"""
USERS = {"user": [user(1), user(2, "guest")], "log": [{"what": "x", "n": 1}]}
BEFORE = {**USERS, "item": [item(n, n, owner=1) for n in range(1, 9)]}
MADE = item(20, 3, owner=1)


def after(*rows: dict[str, Any], gone: int = 0) -> dict[str, Any]:
    kept = [each for each in BEFORE["item"] if each["id"] != gone]
    return {**USERS, "item": [*kept, *rows]}


def bundle(*rows: dict[str, Any], before: Any = None, **rest: Any) -> Bundle:
    return run(BODY, before or BEFORE, after(*rows, **rest)).bundle


def remade(of: Bundle, **files: Any) -> Bundle:
    """The bundle with other documents in some of its files, and a manifest that says so."""
    documents = {name: of.document(name) for name in of.files if not name.endswith(".yaml")} | {
        f"{name}.json": document for name, document in files.items()
    }
    facts = {name: fact for name, fact in of.manifest.items() if name not in ("files", "format")}
    return make(documents, of.files["contract.yaml"], facts)


def forged(true: Bundle, lie: Bundle, *kept: str) -> Bundle:
    """The judgement of a lie over the captures of the truth, and over what else is kept of it."""
    files = {name: true.document(f"{name}.json") for name in ("captures", *kept)}
    return remade(lie, **files)


LIES = {
    "a change": (bundle(MADE, gone=4), bundle(MADE)),
    "a creation": (bundle(MADE, item(21, 4, owner=1)), bundle(MADE)),
    "a member that a clause ranges over": (
        run(BODY, {**BEFORE, "item": [item(1, -1)]}, {**USERS, "item": [item(1, -1), MADE]}).bundle,
        run(BODY, {**BEFORE, "item": []}, {**USERS, "item": [MADE]}).bundle,
    ),
    "a value of a row that was looked up": (
        bundle(item(20, 3, owner=2)),
        run(BODY, {**BEFORE, "user": [user(1), user(2)]}, {**after(item(20, 3, owner=2)),
            "user": [user(1), user(2)]}).bundle,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LIES)
def test_what_is_left_out_of_the_fragments_breaks_the_proof(what: str) -> None:
    true, lie = LIES[what]
    assert true.manifest["verdict"] == DIVERGE.value
    assert lie.manifest["verdict"] == MATCH.value
    assert replay(true).verdict is DIVERGE
    assert replay(lie).verdict is MATCH
    for kept in ((), ("roots",)):
        with pytest.raises(BundleError, match=r"roots|captured|there|that were|members than rows"):
            replay(forged(true, lie, *kept))


@pytest.mark.parametrize("side", ["before", "after", "elsewhere"])
def test_a_type_that_is_also_said_to_be_unobserved_hides_no_change(side: str) -> None:
    body = "\n".join(line for line in BODY.splitlines() if "positive" not in line)
    true = run(body, BEFORE, after(MADE, gone=4)).bundle
    lie = run(body, BEFORE, after(MADE)).bundle
    assert [each.manifest["verdict"] for each in (true, lie)] == [DIVERGE.value, MATCH.value]
    captures = json.loads(true.files["captures.json"])
    captures["enumerations"][0].insert(0, [side, "item", ["unobserved", "no"]])
    with pytest.raises(BundleError, match=r"enumerated twice|not all there"):
        replay(remade(lie, captures=captures, roots=true.document("roots.json")))


def test_a_bundle_that_drops_its_roots_is_of_no_format() -> None:
    true, lie = LIES["a change"]
    captures = true.document("captures.json")
    for bare in (captures, {k: x for k, x in captures.items() if k != "roots"}):
        made = forged(true, lie)
        files = {**made.files, "captures.json": write(bare)}
        found = Bundle({**made.manifest, "format": UNBOUND}, files)
        with pytest.raises(BundleError, match=r"format statediff/bundle/1\.1"):
            replay(found)


def test_an_older_bundle_is_replayed_and_binds_no_states() -> None:
    made = bundle(MADE)
    captures = {k: x for k, x in made.document("captures.json").items() if k != "roots"}
    files = {name: data for name, data in made.files.items() if name != "roots.json"}
    older = Bundle(
        {**made.manifest, "format": UNBOUND}, {**files, "captures.json": write(captures)}
    )
    assert replay(older).verdict is MATCH


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["scanned"].pop(),
        lambda d: d["scanned"][0]["counts"].append(0),
        lambda d: d["scanned"][0].update(salt="00" * 16),
        lambda d: d["scanned"][0]["columns"].pop(),
        lambda d: d["scanned"][0]["columns"][0].__setitem__(2, "00" * 16),
        lambda d: d["scanned"][0]["columns"][0].__setitem__(2, None),
    ],
)
def test_what_shows_a_whole_type_is_not_to_be_changed(change: Callable[[Any], Any]) -> None:
    made = bundle(MADE)
    document = made.document("roots.json")
    change(document)
    with pytest.raises(BundleError):
        replay(remade(made, roots=document))


def test_a_type_is_not_said_to_be_more_complete_than_it_was() -> None:
    seen = state(BEFORE), state(after(MADE))
    cut = [part(side, each) for side, each in zip(("before", "after"), seen, strict=True)]
    short = part("after", state(after(MADE), {"user": CUT}))
    lie = run(BODY, capture("before", cut[0]), capture("after", cut[1])).bundle
    true = run(BODY, capture("before", cut[0]), capture("after", short)).bundle
    captures = {**lie.document("captures.json"), "roots": true.document("captures.json")["roots"]}
    with pytest.raises(BundleError, match="user after is complete, but db had it incomplete"):
        replay(remade(lie, captures=captures, roots=true.document("roots.json")))


def test_a_type_of_two_sources_is_not_bound() -> None:
    def sides(*of: Any) -> list[Any]:
        return [
            capture(side, *(part(side, state(each, source=name), name) for name in ("db", "copy")))
            for side, each in zip(("before", "after"), of, strict=True)
        ]

    true, lie = (run(BODY, *sides(BEFORE, after(MADE, gone=gone))).bundle for gone in (4, 0))
    assert [true.manifest["verdict"], lie.manifest["verdict"]] == [DIVERGE.value, MATCH.value]
    assert true.document("roots.json")["opened"] == []
    assert replay(forged(true, lie, "roots")).verdict is MATCH


def test_a_type_is_read_by_the_readings_of_its_own_source_and_by_no_other() -> None:
    true = bundle(MADE)
    for ids in ([], ["after/other"], ["before/db", "after/db"]):
        said = true.document("resolution.json")
        said["readings_of"][0][2] = ids
        with pytest.raises(BundleError, match="not the reading of"):
            replay(remade(true, resolution=said))


def test_nothing_of_a_row_that_was_not_read_is_in_a_bundle() -> None:
    secret = bytes(range(32))
    made = run(BODY, BEFORE, after(MADE)).bundle
    other = run(BODY, {**BEFORE, "user": [user(1), user(2, "guest", "Eve")]}, {**after(MADE),
                "user": [user(1), user(2, "guest", "Eve")]}).bundle  # fmt: skip
    assert "Eve" not in json.dumps(other.document("fragments.json"))
    assert made.document("captures.json")["roots"] != other.document("captures.json")["roots"]
    roots = [
        Roots.of(capture("before", part("before", state(BEFORE))),
                 capture("after", part("after", state(BEFORE))), own).by_side
        for own in (b"", secret, secret[::-1])
    ]  # fmt: skip
    assert len({each["before"] for each in roots}) == 3
    assert all(each["before"] == each["after"] for each in roots)


# --- laws --------------------------------------------------------------------------------------

KEYS = st.integers(0, 400)
DIGESTS = st.binary(min_size=32, max_size=32)
LEAVES = st.dictionaries(DIGESTS, DIGESTS, max_size=40)


@given(LEAVES, LEAVES, st.data())
@settings(max_examples=60, deadline=None)
def test_both_roots_come_of_the_opened_rows_and_one_rest(
    leaves: dict[bytes, bytes], more: dict[bytes, bytes], data: st.DataObject
) -> None:
    gone = data.draw(st.lists(st.sampled_from(sorted(leaves)), unique=True)) if leaves else []
    close = {bytes([*path[:31], path[31] ^ 1]): path for path in gone[:2]}
    changes: dict[bytes, bytes | None] = {**dict.fromkeys(gone), **more, **close}
    tree = Tree.of(Leaf(*leaf) for leaf in leaves.items())
    moved = {path: digest for path, digest in {**leaves, **changes}.items() if digest is not None}
    root = tree.changed(changes) if changes else tree.root
    assert root == Tree.of(Leaf(*leaf) for leaf in moved.items()).root

    def bits(path: bytes) -> str:
        return f"{int.from_bytes(path):0256b}"

    nodes, alone = tree.beside(changes)
    rest = [(bits(path)[:depth], digest) for depth, path, digest in nodes]
    rest += [(bits(leaf.path), v.row_leaf(*leaf)) for leaf in alone]
    for side, expected in ((leaves, tree.root), (moved, root)):
        own = [(bits(p), v.row_leaf(p, side[p])) for p in changes if p in side]
        assert v.tree_of(sorted(rest + own)) == expected
    assert all(tree.find(path) == leaves.get(path) for path in changes)


VALUES = {
    Kind.BOOL: st.booleans(),
    Kind.INT: st.integers(-(2**70), 2**70),
    Kind.DECIMAL: st.decimals(allow_nan=False) | st.just(Decimal("1E+2")),
    Kind.FLOAT: st.floats(),
    Kind.TEXT: st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    Kind.JSON: st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    Kind.BYTES: st.binary(max_size=6),
    Kind.TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
    Kind.LOCAL_TIMESTAMP: st.datetimes(),
    Kind.DATE: st.dates(),
}
ODD = st.sampled_from(
    [None, ABSENT, Unobserved("né\\"), Digested.of("x"), ("a", 1), Map((("k", date(2026, 1, 1)),)),
     datetime(2026, 1, 1, tzinfo=UTC)]
)  # fmt: skip
KINDS = sorted(VALUES, key=str)
WIDE = EntityType(
    "wide", ("key",), (Field("key", Kind.TEXT), *(Field(f'{k.value}"é', k) for k in KINDS))
)
ROWS = st.dictionaries(
    VALUES[Kind.TEXT],
    st.tuples(*(VALUES[kind] | (ODD if at % 2 else st.none()) for at, kind in enumerate(KINDS))),
    max_size=6,
)


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_rows_are_written_by_columns_as_one_by_one(rows: dict[str, tuple[Any, ...]]) -> None:
    names = [each.name for each in WIDE.fields]
    whole = [dict(zip(names, (key, *cells), strict=True)) for key, cells in rows.items()]
    for entity in (WIDE, EntityType("bare", (), WIDE.fields)):
        table = build_table(entity, whole, MemoryChunks())
        [batch] = table.batches()
        expected = list(table.rows())
        assert row_texts(entity, batch) == [
            write(fields_document(tuple(row.items()))) for _, row in expected
        ]
        assert key_texts(entity, batch) == [write(key_document(key)) for key, _ in expected]


def rooted(before: State, last: State) -> dict[str, str]:
    sides = (capture(side, part(side, each)) for side, each in (("b", before), ("a", last)))
    return dict(Roots.of(*sides, b"secret").by_side)


MANY = st.dictionaries(KEYS, st.integers(0, 3), max_size=30)


@given(MANY, MANY, st.lists(st.integers(0, 2), max_size=5), st.lists(st.integers(0, 2), max_size=5))
@settings(max_examples=40, deadline=None)
def test_a_root_is_of_its_state_however_it_was_come_by(
    one: dict[int, int], two: dict[int, int], logged: list[int], later: list[int]
) -> None:
    def of(items: dict[int, int], log: list[int]) -> State:
        notes = [{"what": "x", "n": n} for n in log]
        return state({"item": [item(k, n) for k, n in items.items()], "log": notes})

    before, last = of(one, logged), of(two, later)
    tables = dict(before.tables)
    for name in ("item", "log"):
        gone, come = ([row for _, row in each.tables[name].rows()] for each in (before, last))
        tables[name] = patched(before.tables[name], gone, come)
    made = State(before.schema, tables)
    fresh = rooted(last, last)["before"]
    assert rooted(before, last)["after"] == rooted(before, made)["after"] == fresh
    assert (fresh == rooted(before, before)["before"]) == (before.digest() == last.digest())
    assert LOG.is_keyless


@given(MANY, MANY)
@settings(max_examples=25, deadline=None)
def test_every_bundle_replays_under_its_roots(one: dict[int, int], two: dict[int, int]) -> None:
    sides = [
        {**USERS, "item": [item(k, n, owner=1 + n % 2) for k, n in each.items()]}
        for each in (one, two)
    ]
    done = run(BODY, *sides)
    assert replay(done.bundle) == done.judgement
