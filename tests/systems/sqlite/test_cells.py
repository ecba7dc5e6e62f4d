"""Cells read beside those that a page had are those that are read of the page alone."""

import random
import sqlite3
from contextlib import closing

from hypothesis import event, given
from hypothesis import strategies as st

from statediff.systems.sqlite.paged.btree import Cells, Node, Tangled, node_of


def pages_of(db: sqlite3.Connection, size: int) -> list[bytes]:
    image = db.serialize()
    return [image[at : at + size] for at in range(0, len(image), size)]


def work(db: sqlite3.Connection, draw: random.Random) -> None:
    row, text = draw.randrange(1, 160), "x" * draw.choice((0, 3, 9, 40, 700))
    statement, values = draw.choice(
        [
            ("UPDATE a SET body = ? WHERE id = ?", (text, row)),
            ("UPDATE a SET n = n + 1 WHERE id = ?", (row,)),
            ("DELETE FROM a WHERE id = ?", (row,)),
            ("DELETE FROM a WHERE id BETWEEN ? AND ? + 30", (row, row)),
            ("INSERT OR IGNORE INTO a VALUES (?, 1, ?)", (row * draw.choice((1, 10**6)), text)),
        ]
    )
    db.execute(statement, values)


def nodes(before: list[bytes], after: list[bytes], usable: int) -> list[tuple[Node, Node]]:
    found = []
    for number, (one, two) in enumerate(zip(before, after, strict=False), start=1):
        try:
            pair = node_of(one, number, usable), node_of(two, number, usable)
        except Tangled:
            continue  # a page of an overflow chain, or a free one
        if one != two and pair[0].kind == pair[1].kind and pair[0].kind != 5:
            found.append(pair)
    return found


def read(node: Node, before: tuple[Node, Cells] | None) -> Cells | None:
    try:
        cells = node.cells(before)
        node.check_space(cells)
    except Tangled:
        return None
    return cells


def content(cells: Cells | None) -> object:
    return cells and (cells.sizes, cells.row_ids, cells.locals, cells.rests)


def check(former: Node, node: Node) -> bool:
    old = former.cells()
    alone, beside = read(node, None), read(node, (former, old))
    assert content(alone) == content(beside)
    if beside is None or beside.kinship is None:
        return False
    kinship = beside.kinship
    stayed = [at for at in range(len(beside.sizes)) if at not in kinship.new]
    were = [at for at in range(len(old.sizes)) if at not in kinship.gone]
    assert [beside.locals[at] for at in stayed] == [old.locals[at] for at in were]
    ordered = {at for at in range(len(beside.sizes) - 1) if at not in kinship.loose}
    assert ordered.isdisjoint(kinship.new)
    assert {at + 1 for at in ordered}.isdisjoint(kinship.new)
    return True


@given(st.integers(0, 2**32))
def test_cells_beside_those_before_are_those_of_the_page_alone(seed):
    draw = random.Random(seed)
    size = draw.choice((512, 1024, 4096))
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(
            f"""PRAGMA page_size={size}; CREATE TABLE a (id INTEGER PRIMARY KEY, n, body);
            CREATE INDEX a_body ON a (body, n);
            WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i LIMIT 150)
            INSERT INTO a SELECT n, n * 37 % 151, printf('%.*c', n % 30, 'y') FROM i;"""
        )
        before = pages_of(db, size)
        for _ in range(draw.randrange(1, 5)):
            work(db, draw)
        after = pages_of(db, size)
    for former, node in nodes(before, after, size):
        event(f"in place: {check(former, node)}")
        broken = bytearray(node.content)
        for _ in range(draw.randrange(1, 4)):
            broken[draw.randrange(node.at, node.at + 40)] = draw.randrange(256)
            broken[draw.randrange(size)] = draw.randrange(256)
        try:
            mutated = node_of(bytes(broken), 2 if not node.at else 1, size)
        except Tangled:
            continue
        if mutated.kind == former.kind:
            check(former, mutated)
