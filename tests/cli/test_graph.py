"""`capture --graph` and `diff --graph`: what the files hold, and which names are refused."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from statediff import api
from statediff.model.graph import graph_from
from tests.cli.conftest import Call
from tests.reports.test_graph import AFTER, BEFORE, SCHEMA


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    place = tmp_path / "org.yaml"
    place.write_text(SCHEMA, encoding="utf-8")
    return place


@pytest.mark.parametrize("suffix", ["graphml", "json"])
def test_states_and_diffs_are_written_and_read_back(
    statediff: Call, schema: Path, suffix: str, tmp_path: Path
) -> None:
    for name, tables in (("before", BEFORE), ("after", AFTER)):
        (tmp_path / f"{name}.json").write_text(json.dumps(tables), encoding="utf-8")
    before, after = str(tmp_path / "before.json"), str(tmp_path / "after.json")
    whole, changed = tmp_path / f"whole.{suffix}", tmp_path / f"changed.{suffix}"
    options = ["--schema", str(schema), "--graph"]
    written = statediff("capture", after, *options, str(whole))
    assert "written: " in written.err
    statediff("diff", "--before", before, "--after", after, *options, str(changed))
    found = graph_from(whole.read_bytes(), whole.suffix)
    expected = api.state(AFTER, schema=schema).graph()
    assert dict(found.nodes(data=True)) == dict(expected.nodes(data=True))
    assert sorted(found.edges(keys=True)) == sorted(expected.edges(keys=True))
    around = graph_from(changed.read_bytes(), changed.suffix)
    assert {at: d["change"] for at, d in around.nodes(data=True)} == {
        "membership[(5, 2)]": "link",
        "group[2]": "",
        "user[5]": "",
    }
    assert around.nodes["user[5]"]["before"] == {"id": 5}
    plain = nx.read_graphml(whole) if suffix == "graphml" else None
    assert plain is None or plain.nodes["user[5]"]["type"] == "user"


def test_the_form_of_a_graph_file_is_known_before_anything_is_read(
    statediff: Call,
) -> None:
    refused = statediff("capture", "nowhere.json", "--graph", "x.png")
    assert refused.code == 2
    assert "GraphML (.graphml) or as node-link JSON (.json), not '.png'" in refused.err


def test_a_diff_reaches_what_refers_to_a_change(
    statediff: Call, tmp_path: Path, schema: Path
) -> None:
    after = {**BEFORE, "group": [{"id": 1}, {"id": 2}, {"id": 3, "name": "x"}]}
    for name, tables in (("before", BEFORE), ("after", after)):
        (tmp_path / f"{name}.json").write_text(json.dumps(tables), encoding="utf-8")
    place = tmp_path / "changed.json"
    states = [f"{tmp_path}/before.json", "--after", f"{tmp_path}/after.json"]
    statediff("diff", "--before", *states, "--schema", str(schema), "--graph", str(place))
    graph = graph_from(place.read_bytes(), ".json")
    assert set(graph) == {"group[3]", "membership[(4, 3)]", "nesting[1]", "nesting[2]"}
    assert set(graph.in_edges("group[3]", keys=True)) == {
        ("membership[(4, 3)]", "group[3]", "membership.group"),
        ("nesting[1]", "group[3]", "nesting.child"),
        ("nesting[2]", "group[3]", "nesting.parent"),
    }
