"""A copy that withholds parts, in lines of text, and what can be decided again from it alone.

The clauses are in every copy; what was found, the changes, the answer and the calls are in a
reviewer's. The verdict follows from the truths of the clauses, which a reader can check, and so
does each comparison whose two sides are shown. Nothing else of a copy can be decided: it stands on
the signature.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from statediff.contract.evaluation.operations import equal, order, time_kind
from statediff.errors import InputError
from statediff.evidence import verify as v
from statediff.evidence.canonical import write
from statediff.evidence.documents import key_from
from statediff.model.explanation import Reason
from statediff.model.values import Observed, decode, is_value, show, show_key
from statediff.reports.record import reading, said
from statediff.reports.wording.worded import clause_sentence, intent_of, worded_finding

Json = Any
MARKS: Final = {"HOLDS": "✔", "FAILS": "✘", "UNKNOWN": "?"}
MAX_SHOWN: Final = 50
_ORDERED: Final = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (1, 0)}


@dataclass(frozen=True)
class Decided:
    """The decisions that a copy lets its reader make again."""

    clauses: int
    compared: int
    """Comparisons that come out as the copy says."""
    disputed: tuple[str, ...]
    """Comparisons that come out otherwise, in words."""
    withheld: int
    """Comparisons of which a side is withheld."""


def files_of_copy(at: Mapping[str, Json]) -> dict[str, bytes]:
    """The contract and the schema, as far as the copy discloses them."""
    contract, schema = at.get("contract.yaml#"), at.get("schema.json#")
    files = {} if contract is None else {"contract.yaml": contract[0].encode()}
    return files if schema is None else {**files, "schema.json": write(schema[0])}


def review_in(found: v.Verified) -> Json | None:
    """The review that a copy discloses; None where it has none."""
    return next((leaf.value for leaf in found.leaves if leaf.path == v.REVIEW), None)


def decide_copy(found: v.Verified) -> Decided:
    """The decisions from the copy alone; `verify` has folded its clauses to the verdict."""
    review = review_in(found) or {"findings": []}
    with reading("the review"):
        nodes = [node for each in review["findings"] for node in _compared(each["explanation"])]
        truths = [(node, _truth(node)) for node in nodes]
        summary = next(leaf.value for leaf in found.leaves if leaf.path == v.SUMMARY)
        return Decided(
            len(summary["clauses"]),
            sum(truth == node["truth"] for node, truth in truths),
            tuple(
                f"{_side(node['left'])} {node['operator']} {_side(node['right'])} is said to be "
                f"{node['truth']} and is {truth}"
                for node, truth in truths
                if truth is not None and truth != node["truth"]
            ),
            sum(truth is None for _, truth in truths),
        )


def _compared(of: Json) -> Iterator[Json]:
    """The comparisons in an explanation."""
    if isinstance(of, dict):
        if of.get("is") == Reason.COMPARED:
            yield of
        for each in of.values():
            yield from _compared(each)
    elif isinstance(of, list):
        for each in of:
            yield from _compared(each)


def _truth(node: Json) -> str | None:
    """The truth of a comparison; None where a side is withheld or is no plain value."""
    left, right = _plain(node["left"]), _plain(node["right"])
    operator = str(node["operator"])
    if left is _NOTHING or right is _NOTHING:
        return None
    if operator in ("==", "!="):
        return "HOLDS" if equal(left, right) == (operator == "==") else "FAILS"
    if operator not in _ORDERED or left is None or right is None:
        return None
    placed = order(left, right)
    return None if placed is None else "HOLDS" if placed in _ORDERED[operator] else "FAILS"


_NOTHING: Final = object()


def _plain(of: Json) -> Any:
    """The number, flag, time or null that a side is. A text may have been cut, a list too."""
    if not isinstance(of, dict) or of.get("is") != Reason.VALUE:
        return _NOTHING
    try:
        value: Observed = decode(of["value"])
    except InputError:
        return _NOTHING
    is_time = is_value(value) and time_kind(value) is not None
    is_plain = value is None or isinstance(value, int | float) or of["value"][0] == "decimal"
    return value if is_plain or is_time else _NOTHING


def _side(of: Json) -> str:
    return _show(of["value"])


def copy_lines(found: v.Verified, where: str) -> Iterator[str]:
    """A copy in lines: verdict, clauses, findings, changes, and the withheld parts."""
    with reading(where):
        at = {leaf.path: leaf.value for leaf in found.leaves}
        manifest, review = found.manifest, at.get(v.REVIEW)
        yield f"{manifest['verdict']}  {said(manifest['contract'])} {manifest['contract_version']}"
        files = files_of_copy(at)
        if (intent := intent_of(files)) is not None:
            yield f"Task: {said(intent)}"
        for each in at[v.SUMMARY]["clauses"]:
            asked = clause_sentence(files, str(each["clause"])) if each["truth"] == "HOLDS" else ""
            line = f"  {MARKS.get(each['truth'], '?')} {said(each['clause'])}"
            yield f"{line}: {said(asked)}" if asked else line
        if review is not None:
            yield from _review_lines(review, files)
        yield "Withheld from this copy, under the same signature:"
        for tag, count in found.withheld.items():
            tier, _, kind = tag.partition("/")
            yield f"  {kind} for the {tier}: {count}"
        yield "What is withheld changes no verdict: the clauses above decide it, and are signed."


def _review_lines(review: Json, files: Mapping[str, bytes]) -> Iterator[str]:
    for each in review["findings"]:
        asked = clause_sentence(files, str(each["clause"]))
        worded = worded_finding(each, asked)
        yield f"{MARKS.get(each['truth'], '?')} {said(each['clause'])}: {said(worded['sentence'])}"
        if asked:
            yield f"    The contract asks: {said(asked)}"
        yield from (f"    missing: {said(cause)}" for cause in worded["missing"])
        for row in worded["witness"]["rows"][:MAX_SHOWN]:
            shown = ", ".join(f"{said(n)} {said(_show(x))}" for n, x in row["fields"])
            yield f"    {row['side']} {_entity(row)}: {shown}"
    total = len(review["changes"]) + review["more_changes"]
    yield f"Changes: {total}" + (f", {MAX_SHOWN} of them here" if total > MAX_SHOWN else "")
    yield from (f"  {line}" for line in change_lines(review))
    if review["answer"] is not None:
        yield f"Answer: {said(_show(review['answer']))}"
    if review["calls"]:
        yield f"Calls: {len(review['calls']) + review['more_calls']}"
    if hidden := ", ".join(f"{why} {n}" for why, n in sorted(review["withheld"].items())):
        yield f"Values withheld here: {hidden}"


def change_lines(review: Json | None) -> Iterator[str]:
    """The changes that a review shows, what nothing explains first, with the clauses that do."""
    changes = [] if review is None else review["changes"]
    for each in sorted(changes, key=lambda each: bool(each["explained_by"]))[:MAX_SHOWN]:
        by = ", ".join(map(said, each["explained_by"])) or "nothing explains it"
        yield f"{each['op']} {_entity(each)}{_values(each)}  ({by})"


def _show(value: Json) -> str:
    """A value in words; of what is withheld, why."""
    is_withheld = value[0] == "excluded" and value[1].startswith("withheld")
    return f"({value[1]})" if is_withheld else show(decode(value))


def _entity(of: Json) -> str:
    return f"{said(of['type'])} {said(show_key(key_from(of['key'])))}"


def _values(change: Json) -> str:
    """The field that changed with its sides, or the fields of the row that came or went."""
    before, after = change["before"], change["after"]
    if "value" in before and "value" in after:
        sides = " → ".join(said(_show(each["value"])) for each in (before, after))
        return f" {said(change['path'])}: {sides}"
    row = after if "entity" in after else before
    return ": " + ", ".join(f"{said(n)} {said(_show(x))}" for n, x in row.get("entity", ()))
