"""Replay copies: the steps open and truths (R-OPEN, R-TRU, R-SCAN)."""

from __future__ import annotations

import ast
from typing import Any

from .basics import Refused, fold, need, same, sha_hex
from .changes import SIDES, Change, State, read_state
from .contract import Clause, Contract, read_contract
from .expressions import UNKNOWN, Entity, evaluate, fields_read
from .opening import Bundle, CannotTell, open_bundle
from .scans import check_scans
from .shapes import check_shapes
from .trust import Trust

KERNEL = "13"


def _check_manifest(bundle: Bundle, contract: Contract) -> None:
    inner, documents = bundle.inner, bundle.documents
    schema = documents["schema.json"]
    keeping = {
        source: {"disclose": tier, "retain": None} for source, tier in contract.disclose.items()
    }
    expected: dict[str, Any] = {
        "contract": contract.name,
        "contract_version": contract.version,
        "contract_digest": sha_hex(bundle.data["contract.yaml"]),
        "trial": documents["trial.json"]["id"],
        "schema": schema["name"] + "@" + schema["version"],
        "verdict": documents["judgement.json"]["verdict"],
        "resolver": "resolve@1",
        "keeping": keeping,
        "rules": [],
        "applied": [],
    }
    for name, value in expected.items():
        need(same(inner[name], value), "R-TRU-2 " + name)


def _check_readings(bundle: Bundle, contract: Contract) -> None:
    documents = bundle.documents
    captures, resolution = documents["captures.json"], documents["resolution.json"]
    need(captures["refusals"] == [], "R-TRU-4 refusals")
    need(resolution["doubts"] == [], "R-TRU-4 doubts")
    readings = [(side, entry["reading"]) for side in SIDES for entry in captures[side]]
    sources = set(contract.disclose)
    if not sources:
        sources = {reading["source"] for _, reading in readings}
        sources |= set(documents["trial.json"]["sources"])
    for side in SIDES:
        for source in sources:
            found = [one for where, one in readings if (where, one["source"]) == (side, source)]
            need(len(found) > 0, "R-TRU-4 a source without a reading")
            for reading in found:
                good = reading["digest"] is not None and not reading["is_agent_influenced"]
                need(good and not reading["acknowledgement"], "R-TRU-4 a reading of no use")


def _check_lengths(bundle: Bundle) -> None:
    documents = bundle.documents
    length = len(documents["fragments.json"])
    need(length >= 1, "R-TRU-5 no matching")
    others = (documents["index.json"], documents["captures.json"]["enumerations"])
    need(all(len(other) == length for other in others), "R-TRU-5 lengths")
    need(len(documents["resolution.json"]["mappings"]) == length, "R-TRU-5 mappings")
    need(length == 1 or documents["resolution.json"]["ambiguous"] != [], "R-TRU-5 more than one")
    if length > 1:
        raise CannotTell("several matchings")


def _check_subset(bundle: Bundle, contract: Contract) -> None:
    documents = bundle.documents
    history, trace = documents["captures.json"]["history"], documents["trace.json"]
    if history["transactions"] or history["readings"]:
        raise CannotTell("a history")
    if any(line["gap"] is None for line in history["lines"]):
        raise CannotTell("a line of a history")
    _check_types(bundle, contract)
    if trace["is_complete"] or trace["actions"] or trace["turns"] is not None:
        raise CannotTell("a trace")
    if documents["timeline.json"] is not None or "none" not in documents["answer.json"]:
        raise CannotTell("a timeline or an answer")


def _check_types(bundle: Bundle, contract: Contract) -> None:
    documents = bundle.documents
    delivered = [kind for _, kinds in documents["schema.json"]["sources"] for kind in kinds]
    if len(set(delivered)) != len(delivered):
        raise CannotTell("types of several sources")
    known = {entry["name"] for entry in documents["schema.json"]["types"]}
    for clause in contract.clauses:
        if not set(clause.types) <= known:
            raise CannotTell("a pattern of a type that is none")


class Judge:
    """Makes the truths of a contract's clauses over the changes."""

    def __init__(self, bundle: Bundle, contract: Contract, state: State) -> None:
        self.bundle, self.contract, self.state = bundle, contract, state

    def ranges(self, side: str, kind: str, fields: set[str]) -> tuple[list[Entity], bool]:
        """Return the members of a type on a side, and whether they are all."""
        if kind not in self.state.schemas:
            raise CannotTell("a range over a type that is none")
        complete = self.state.is_complete(side, kind)
        for scan in self.bundle.documents["fragments.json"][0]["scans"]:
            if scan["side"] == side and scan["type"] == kind and fields <= set(scan["fields"]):
                return [dict(held) for _, held in scan["members"]], complete
        need(not complete, "R-TRU-9 no scan")
        return [], False

    def _where(self, node: ast.expr, entity: Entity, kind: str) -> bool:
        known = {field["name"] for field in self.state.schemas[kind]["fields"]}
        if not fields_read(node, "it") <= known:
            raise CannotTell("a field that the type does not have")
        result = evaluate(node, {"it": entity}, self.ranges)
        if not isinstance(result, bool):
            raise CannotTell("a condition that is " + result)
        return result

    def matches(self, clause: Clause, change: Change) -> bool:
        """Tell whether a pattern matches a change (R-TRU-8)."""
        if change.kind not in clause.types or clause.operation not in ("any", change.operation):
            return False
        if clause.wanted and not self._fits(clause, change):
            return False
        entity = change.new if change.old is None else change.old
        if clause.where is None or entity is None:
            return True
        return self._where(clause.where, entity, change.kind)

    @staticmethod
    def _fits(clause: Clause, change: Change) -> bool:
        """Tell whether the new version of an entity is as `set` says."""
        if change.new is None:
            return False
        if any(change.new.get(name, ["absent"]) != value for name, value in clause.wanted.items()):
            return False
        return clause.operation != "update" or bool(set(clause.wanted) & set(change.paths))

    def explains(self, clause: Clause, change: Change, path: str) -> bool:
        """Tell whether a pattern explains a delta."""
        if clause.operation is None or not self.matches(clause, change):
            return False
        return clause.operation != "update" or not clause.wanted or path in clause.wanted

    def is_dark(self, kind: str) -> bool:
        """Tell whether changes of the type may not have been seen."""
        return not all(self.state.is_complete(side, kind) for side in SIDES)

    def _that(self, clause: Clause, that: ast.expr) -> str:
        result = evaluate(that, {}, self.ranges)
        if result == UNKNOWN:
            return "UNKNOWN"
        if not isinstance(result, bool):
            return "FAILS" if clause.stage == "require" else "UNKNOWN"
        return "HOLDS" if result == (clause.stage == "require") else "FAILS"

    def truth(self, clause: Clause) -> str:
        """Return the truth of a clause of forbid or require (R-TRU-9)."""
        if clause.that is not None:
            return self._that(clause, clause.that)
        number = sum(self.matches(clause, change) for change in self.state.changes)
        dark = any(self.is_dark(kind) for kind in clause.types)
        if clause.stage == "forbid":
            if number:
                return "FAILS"
            return "UNKNOWN" if dark else "HOLDS"
        return self._counted(clause, number, dark)

    @staticmethod
    def _counted(clause: Clause, number: int, dark: bool) -> str:
        """Return the truth of a clause of require over a pattern."""
        if clause.most is not None and number > clause.most:
            return "FAILS"
        if number < clause.least:
            return "UNKNOWN" if dark else "FAILS"
        return "UNKNOWN" if dark and clause.most is not None else "HOLDS"

    def frame(self) -> str:
        """Return the truth of the frame."""
        clauses = [clause for clause in self.contract.clauses if clause.stage != "forbid"]
        deltas = [(change, path) for change in self.state.changes for path in change.paths]
        for change, path in deltas:
            if not any(self.explains(clause, change, path) for clause in clauses):
                return "FAILS"
        free: set[str] = set()
        wide = [one for one in clauses if one.stage == "allow" and one.operation == "any"]
        for clause in wide:
            if clause.where is None and not clause.wanted:
                free |= set(clause.types)
        dark = [kind for kind in self.state.schemas if kind not in free and self.is_dark(kind)]
        return "UNKNOWN" if dark else "HOLDS"

    def clauses(self) -> list[dict[str, str]]:
        """Return the clauses of the judgement (R-TRU-10)."""
        result: list[dict[str, str]] = []
        for stage in ("forbid", "frame", "require"):
            if stage == "frame":
                result.append({"clause": "frame", "stage": "frame", "truth": self.frame()})
            for clause in self.contract.clauses:
                if clause.stage == stage:
                    truth = self.truth(clause)
                    result.append({"clause": clause.id, "stage": stage, "truth": truth})
        return result


def check_truths(bundle: Bundle) -> None:
    """Take the second step of a replay, and refuse what differs from the judgement."""
    check_shapes(bundle.documents)
    need(bundle.inner["kernel"] == KERNEL, "R-TRU-1")
    contract = read_contract(bundle.documents["contract.yaml"])
    _check_lengths(bundle)
    _check_manifest(bundle, contract)
    _check_readings(bundle, contract)
    _check_subset(bundle, contract)
    check_scans(bundle)
    state = read_state(bundle)
    judgement = bundle.documents["judgement.json"]
    clauses = Judge(bundle, contract, state).clauses()
    names = ("clause", "stage", "truth")
    said = [{name: clause[name] for name in names} for clause in judgement["clauses"]]
    need(said == clauses, "R-TRU-10 clauses")
    verdict = fold([clause["truth"] for clause in clauses])
    need(judgement["verdict"] == verdict, "R-TRU-10 verdict")
    results = {"outcome": verdict, "task": None, "tool": None}
    need(same(judgement["results"], results), "R-TRU-10 results")
    if verdict == "MATCH" and not contract.noop and not state.changes:
        raise CannotTell("a contract without noop, and a run without changes")


def replay(files: dict[str, bytes], trust: Trust) -> dict[str, Any]:
    """Replay a copy, and return the verdict; what cannot be told is another exception."""
    bundle = open_bundle(files, trust)
    try:
        check_truths(bundle)
    except RecursionError as error:
        raise Refused("too deep") from error
    return {"verdict": bundle.inner["verdict"]}
