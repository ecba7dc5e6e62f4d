"""The graph of a judged trial: its changes, its witnesses, and nothing that the bundle lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import statediff
from statediff.evidence.canonical import write
from statediff.reports.graph import trial_graph

BEFORE: dict[str, list[dict[str, Any]]] = {
    "user": [{"id": 4}, {"id": 5}],
    "group": [{"id": 1}, {"id": 2}, {"id": 3}],
    "role": [{"name": "admin"}, {"name": "guest"}],
    "membership": [{"user": 4, "group": 3}],
    "nesting": [{"id": 1, "child": 3, "parent": 1}, {"id": 2, "child": 2, "parent": 3}],
    "grant": [{"id": 1, "group": 1, "role": "admin"}],
}
AFTER = {**BEFORE, "membership": [*BEFORE["membership"], {"user": 5, "group": 2}]}
SCHEMA = """
schema: org
version: 1.0.0
entities:
  role: {key: [name]}
  membership:
    key: [user, group]
    association: true
    fields: {user: {to: user}, group: {to: group}}
  nesting: {fields: {child: {to: group}, parent: {to: group}}}
  grant: {fields: {group: {to: group}, role: {to: role}}}
"""
CONTRACT = """
contract: org/join
version: 1.0.0
owner: people
intent: Max joins a group and becomes no administrator.
forbid:
  - id: no-admin
    link: membership
    where: >-
      reaches(it.user, after.role["admin"], via=[(membership.user, membership.group),
      (nesting.child, nesting.parent), (grant.group, grant.role)])
require:
  - id: joined
    link: membership
    where: it.user == 5
"""
PATH = {"user[5]", "membership[(5, 2)]", "nesting[2]", "nesting[1]", "grant[1]", "role[admin]"}


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    place = tmp_path / "org.yaml"
    place.write_text(SCHEMA, encoding="utf-8")
    return place


def _judged(schema: Path, after: dict[str, list[dict[str, Any]]] = AFTER) -> statediff.Judged:
    return statediff.judge(statediff.load_contract(CONTRACT), BEFORE, after, schema=schema)


def test_a_membership_that_opens_a_path_diverges_and_its_path_is_in_the_graph(schema: Path) -> None:
    judged = _judged(schema)
    assert judged.verdict is statediff.Verdict.DIVERGE
    assert statediff.replay(judged) is statediff.Verdict.DIVERGE
    graph = judged.graph()
    assert {at for at, by in graph.nodes(data="witness_of") if "no-admin" in by} == PATH
    assert nx.is_weakly_connected(graph.subgraph(PATH | {"group[1]", "group[2]", "group[3]"}))
    assert graph.nodes["membership[(5, 2)]"]["explained_by"] == ("joined",)
    assert graph.nodes["membership[(5, 2)]"]["change"] == "link"
    assert graph.nodes["group[2]"]["fields"] is None  # nothing looked at its row
    assert "user 5 reaches role admin by membership (5, 2) → group 2" in " ".join(
        judged.text().split()
    )
    assert "user 5 refers to" not in judged.html()
    assert "membership[(5, 2)] refers to user[5] by user" in judged.html()


def test_without_the_path_the_same_membership_is_right(schema: Path) -> None:
    other = {"grant": [{"id": 1, "group": 1, "role": "guest"}]}
    before, harmless = {**BEFORE, **other}, {**AFTER, **other}
    judged = statediff.judge(statediff.load_contract(CONTRACT), before, harmless, schema=schema)
    assert judged.verdict is statediff.Verdict.MATCH


def test_the_neighborhood_of_one_delta_is_its_own(schema: Path) -> None:
    graph = _judged(schema).graph(of=["membership[(5, 2)]"])
    assert set(graph) == {"membership[(5, 2)]", "user[5]", "group[2]"}
    assert set(_judged(schema).graph(of=[])) == set()
    with pytest.raises(statediff.StatediffError, match="1 entities changed"):
        _judged(schema).graph(limit=0)


def test_what_a_bundle_does_not_hold_is_in_no_graph_of_it(schema: Path) -> None:
    judged = _judged(schema)
    fragments = judged.bundle.document("fragments.json")
    for row in fragments[0]["rows"]:
        if row["type"] == "membership":
            row["fields"] = None
    files = dict(judged.bundle.files)
    files["fragments.json"] = write(fragments)
    judgement = judged.bundle.document("judgement.json")
    judgement.update(deltas=[], findings=[], explained_by=[])
    files["judgement.json"] = write(judgement)
    graph = trial_graph(type(judged.bundle)(files=files, manifest=judged.bundle.manifest))
    assert not [at for at in graph if at.startswith("membership")]
