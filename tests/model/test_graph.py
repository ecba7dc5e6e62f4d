"""A state and what changed as a graph: what is in it, what it is bounded by, and its files."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import InputError, UsageError
from statediff.model.delta import Entity
from statediff.model.graph import (
    SUFFIXES,
    Changed,
    Graph,
    Known,
    change_content,
    graph_bytes,
    graph_from,
    references,
    state_graph,
)
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, Coverage, Enumeration, MemoryChunks, State, build_table
from statediff.model.values import ABSENT, Digested, Excluded, Map, Unobserved, same

USER = EntityType(
    "user", ("id",), (Field("id", Kind.INT), Field("boss", Kind.INT, reference="user"))
)
NOTE = EntityType(
    "note",
    ("id",),
    (Field("id", Kind.TEXT), Field("by", Kind.INT, reference="user"), Field("v", Kind.ANY)),
)
SCHEMA = Schema("s", "1", (NOTE, USER))
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -(10**30),
    Decimal("1.50"),
    Decimal("NaN"),
    0.1,
    float("nan"),
    float("-inf"),
    "",
    "1",
    "a\x00b\x1f\ud800<&>\u202e",
    "𝄞",
    b"",
    b"\xff\x00",
    datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    datetime(2026, 1, 2, tzinfo=None),  # noqa: DTZ001 - a local timestamp has none
    date(2026, 1, 2),
    (1, ("a", None)),
    Map.of({"a": 1, "b": (True,)}),
    ABSENT,
    Excluded("because"),
    Unobserved("not asked for"),
    Digested.of("long"),
]


def _state(tables: dict[str, list[dict[str, Any]]], **enumerations: Enumeration) -> State:
    store = MemoryChunks()
    return State(
        SCHEMA,
        {
            each.name: build_table(
                each,
                tables.get(each.name, []),
                store,
                enumeration=enumerations.get(each.name, COMPLETE),
            )
            for each in SCHEMA.types
        },
    )


def test_a_state_is_its_entities_and_their_references() -> None:
    graph = _state(
        {
            "user": [{"id": 1, "boss": None}, {"id": 2, "boss": 1}],
            "note": [{"id": "n", "by": 7, "v": 1}],
        }
    ).graph()
    assert graph.graph == {"graph": "state", "unobserved": {}, "left_out": 0}
    assert dict(graph.nodes(data=True)) == {
        "note[n]": {
            "type": "note",
            "key": ("n",),
            "fields": {"id": "n", "by": 7, "v": 1},
            "change": "",
        },
        "user[7]": {"type": "user", "key": (7,), "fields": None, "change": ""},
        "user[1]": {"type": "user", "key": (1,), "fields": {"id": 1, "boss": None}, "change": ""},
        "user[2]": {"type": "user", "key": (2,), "fields": {"id": 2, "boss": 1}, "change": ""},
    }
    assert sorted(graph.edges(keys=True)) == [
        ("note[n]", "user[7]", "note.by"),
        ("user[2]", "user[1]", "user.boss"),
    ]


def test_what_was_not_enumerated_is_said_and_none_of_it_is_drawn() -> None:
    gone = Enumeration(Coverage.UNOBSERVED, "no source")
    part = Enumeration(Coverage.INCOMPLETE, "cut short")
    tables = {"user": [{"id": 1, "boss": None}], "note": [{"id": "n", "by": 1, "v": 1}]}
    graph = _state(tables, note=gone, user=part).graph()
    assert list(graph) == ["user[1]"]
    assert graph.graph["unobserved"] == {"note": "no source", "user": "cut short"}


def test_a_whole_state_is_bounded_and_says_what_to_do() -> None:
    state = _state({"user": [{"id": n, "boss": None} for n in range(5)]})
    assert len(state.graph(limit=5)) == 5
    with pytest.raises(
        UsageError, match=r"5 entities, and a graph of all holds at most 4; .*--graph"
    ):
        state.graph(limit=4)


def test_changes_are_changes_of_nodes_and_of_edges() -> None:
    graph = _changed()
    changes = {at: attributes["change"] for at, attributes in graph.nodes(data=True)}
    assert changes == {
        "user[2]": "update",
        "note[n]": "create",
        "user[1]": "",
        "user[3]": "",
        "note[m]": "",
    }
    assert graph.nodes["user[2]"]["before"] == {"id": 2, "boss": 1}
    assert graph.nodes["user[2]"]["after"] == {"id": 2, "boss": 3}
    assert graph.nodes["user[2]"]["deltas"] == ("user[2].boss",)
    assert graph.nodes["user[1]"]["fields"] == {"id": 1, "boss": None}
    assert graph.nodes["user[3]"]["fields"] is None
    edges = {(a, b, key): d["change"] for a, b, key, d in graph.edges(keys=True, data=True)}
    assert edges == {
        ("user[2]", "user[1]", "user.boss"): "unlink",
        ("user[2]", "user[3]", "user.boss"): "link",
        ("note[n]", "user[2]", "note.by"): "link",
        ("note[m]", "user[2]", "note.by"): "",
    }
    assert graph.graph["unobserved"] == {"note": "cut short"}


def _changed(limit: int = 10) -> Graph:
    changes = [
        Changed("user[2].boss", "update", "user", (2,), "boss", 1, 3),
        Changed(
            "note[n]",
            "create",
            "note",
            ("n",),
            "",
            ABSENT,
            Entity.of({"id": "n", "by": 2, "v": 1}),
        ),
    ]
    known = [
        Known("before", "user", (2,), {"id": 2, "boss": 1}),
        Known("after", "user", (2,), {"id": 2, "boss": 3}),
        Known("after", "user", (1,), {"id": 1, "boss": None}),
        Known("after", "user", (9,), {"id": 9, "boss": 8}),
        Known("after", "note", ("m",), {"id": "m", "by": 2, "v": 1}),
    ]
    content = change_content(changes, known, references(SCHEMA), {"note": "cut short"}, limit)
    return content.as_graph()


def test_changes_are_bounded_too() -> None:
    with pytest.raises(
        UsageError, match="2 entities changed, and a graph of changes holds at most 1"
    ):
        _changed(limit=1)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_kind_of_value_comes_back_from_a_file(suffix: str) -> None:
    rows = [{"id": f"n{at}", "by": 1, "v": value} for at, value in enumerate(VALUES)]
    rows += [
        {"id": name, "by": 1, "v": 1}
        for name in ("a]", 'x"y', "\x01", "\ud800", "é", "\\u0041", "A")
    ]
    graph = _state(
        {"note": rows, "user": [{"id": 1, "boss": None}]},
        note=Enumeration(Coverage.INCOMPLETE, "\x02"),
    ).graph()
    _same_graph(graph_from(graph_bytes(graph, suffix), suffix), graph)
    assert graph_bytes(graph, suffix) == graph_bytes(graph, suffix)
    _same_graph(graph_from(graph_bytes(_changed(), suffix), suffix), _changed())


def _same_graph(found: Graph, wanted: Graph) -> None:
    assert found.graph == wanted.graph
    assert sorted(found) == sorted(wanted)
    assert sorted(found.edges(keys=True)) == sorted(wanted.edges(keys=True))
    for edge in wanted.edges(keys=True):
        assert found.edges[edge] == wanted.edges[edge]
    for at, attributes in wanted.nodes(data=True):
        assert found.nodes[at].keys() == attributes.keys()
        for name, value in attributes.items():
            other = found.nodes[at][name]
            if isinstance(value, dict):
                assert other.keys() == value.keys()
                assert all(same(other[field], value[field]) for field in value)
            else:
                assert (type(other), other) == (type(value), value)


@given(
    st.dictionaries(st.text(), st.text(), max_size=3),
    st.text(min_size=1),
    st.sampled_from(SUFFIXES),
)
def test_no_text_breaks_a_file(fields: dict[str, str], name: str, suffix: str) -> None:
    graph = state_graph(SCHEMA, [], {name: name})
    graph.add_node(name, type=name, key=(name,), fields=fields, change="")
    graph.add_edge(name, name, key=name, relation=name, change="")
    _same_graph(graph_from(graph_bytes(graph, suffix), suffix), graph)


BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    b"<graphml>&b;</graphml>"
)
LINKS = b'{"directed": true, "multigraph": true, "edges": [], "graph": {%s}, "nodes": [%s]}'
NAMELESS = (
    b"<graphml xmlns='http://graphml.graphdrawing.org/xmlns'><graph><node/></graph></graphml>"
)
NONE = {
    ".json": [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        LINKS % (b'"left_out": "x"', b""),
        LINKS % (b"", b'{"id": "a", "key": 5}'),
    ],
    ".graphml": [b"", b"<a/>", b"\xff", BOMB, NAMELESS],
}


@pytest.mark.parametrize(
    ("suffix", "content"), [(suffix, each) for suffix, listed in NONE.items() for each in listed]
)
def test_a_file_that_is_none_is_refused(suffix: str, content: bytes) -> None:
    with pytest.raises(InputError, match="not a graph that statediff wrote"):
        graph_from(content, suffix)


def test_the_name_of_a_file_says_its_form() -> None:
    for suffix in ("", ".xml", ".gml"):
        with pytest.raises(UsageError, match="GraphML"):
            graph_bytes(_changed(), suffix)
