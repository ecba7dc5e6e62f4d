"""The graph of a judged trial: what changed and its neighborhood, from nothing but the bundle.

Beside the attributes of `statediff.model.graph`, a node has `explained_by`, the clauses that
explain a change of it, and `witness_of`, the clauses of which a finding shows it: the rows of a
path are those of the clause that asks for it. What a copy of the bundle withholds is not in the
graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from statediff.evidence.documents import fields_from, key_from
from statediff.evidence.package import Bundle
from statediff.model.delta import delta_id
from statediff.model.graph import MAX_NODES, Changed, Content, Graph, Known, change_content
from statediff.reports.plain import reading, side_of

Json = Any


def trial_graph(bundle: Bundle, of: Collection[str] | None = None, limit: int = MAX_NODES) -> Graph:
    """`trial_content` as a graph."""
    return trial_content(bundle, of, limit).as_graph()


def trial_content(
    bundle: Bundle, of: Collection[str] | None = None, limit: int = MAX_NODES
) -> Content:
    """The graph of the bundle's trial; `BundleError` if the bundle makes no sense.

    `of` names deltas or entities, by their ids, whose changes and neighborhood are wanted; else all
    changes are in it, and all witnesses. `UsageError` where more than `limit` entities changed.
    """
    judged = bundle.document("judgement.json")
    fragments = bundle.document("fragments.json")[0]  # of the matching that is reported
    with reading("judgement.json"):
        fields = {
            str(each["name"]): {str(f["name"]): f["reference"] for f in each["fields"]}
            for each in bundle.document("schema.json")["types"]
        }
        wanted = (d for d in judged["deltas"] if of is None or _is_of(d, of))
        changes = (_changed(delta, fields) for delta in wanted)
        unobserved = {_where(doubt): str(doubt["cause"]) for doubt in judged["doubts"]}
        known = [*_rows(fragments), *_witnesses(judged)]
        shown = _clauses_shown(judged)
        related = {
            name: tuple((field, str(to)) for field, to in own.items() if to)
            for name, own in fields.items()
        }
        beside = frozenset(shown) if of is None else frozenset[str]()
        content = change_content(changes, known, related, unobserved, limit, beside)
        explained = {str(at): tuple(map(str, by)) for at, by in judged["explained_by"]}
    for at, attributes in content.nodes.items():
        by = (clause for delta in attributes["deltas"] for clause in explained.get(delta, ()))
        attributes["explained_by"] = tuple(dict.fromkeys(by))
        attributes["witness_of"] = shown.get(at, ())
    return content


def _is_of(delta: Json, of: Collection[str]) -> bool:
    return delta["id"] in of or delta_id(str(delta["type"]), key_from(delta["key"]), "") in of


def _changed(delta: Json, fields: Mapping[str, Mapping[str, Any]]) -> Changed:
    path = str(delta["path"])
    is_field = not path or path in fields.get(str(delta["type"]), ())
    sides = side_of(delta["before"]), side_of(delta["after"])
    names = str(delta["id"]), str(delta["op"]), str(delta["type"])
    return Changed(*names, key_from(delta["key"]), path if is_field else None, *sides)


def _where(doubt: Json) -> str:
    if doubt["key"] is None:
        return str(doubt["type"]) + (f".{doubt['path']}" if doubt["path"] else "")
    return delta_id(str(doubt["type"]), key_from(doubt["key"]), str(doubt["path"] or ""))


def _rows(fragments: Json) -> Iterator[Known]:
    for entry in fragments["rows"]:
        if entry["side"] in ("before", "after") and entry["fields"] is not None:
            row = fields_from(entry["fields"])
            yield Known(entry["side"], str(entry["type"]), key_from(entry["key"]), row)


def _witness_rows(judged: Json) -> Iterator[tuple[str, Json]]:
    for finding in judged["findings"]:
        if finding["truth"] != "HOLDS":
            for row in finding["witness"]["rows"]:
                if row["side"] in ("before", "after"):
                    yield str(finding["clause"]), row


def _witnesses(judged: Json) -> Iterator[Known]:
    for _, row in _witness_rows(judged):
        key = key_from(row["key"])
        yield Known(row["side"], str(row["type"]), key, fields_from(row["fields"]))


def _clauses_shown(judged: Json) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for clause, row in _witness_rows(judged):
        at = delta_id(str(row["type"]), key_from(row["key"]), "")
        found[at] = tuple(dict.fromkeys((*found.get(at, ()), clause)))
    return found
