"""Check what a copy discloses, and answer it (R-ANS, R-SAY, R-PRED-4, R-PRED-5, R-DEM)."""

from __future__ import annotations

import re
from typing import Any

from .basics import VERDICTS, fold, members, need, same, sha_hex, texts, worst
from .observed import check_observed
from .places import check_closed, check_matchings
from .roots import check_states
from .sealed import Copy, open_copy, rest
from .trust import Trust

FILES = (
    "answer.json captures.json contract.yaml fragments.json index.json judgement.json "
    "manifest.json resolution.json schema.json timeline.json trace.json trial.json"
).split()
LISTS = {"failedTests": "FAILS", "warnedTests": "UNKNOWN", "passedTests": "HOLDS"}


def _check_whole(copy: Copy) -> None:
    for name in FILES:
        need(name + "#" in copy.leaves, "R-ANS-2 no " + name)


def _check_summary(copy: Copy) -> None:
    verdict = copy.manifest["verdict"]
    summary = members(copy.leaves["summary#"], "clauses codes results", "R-SAY-1")
    need(isinstance(summary["clauses"], list) and isinstance(summary["codes"], list), "R-SAY-1")
    need(isinstance(summary["results"], dict), "R-SAY-1")
    for clause in summary["clauses"]:
        texts(members(clause, "clause stage truth", "R-SAY-1"), "clause stage truth", "R-SAY-1")
        need(clause["truth"] in ("HOLDS", "UNKNOWN", "FAILS"), "R-SAY-1")
    need(fold([clause["truth"] for clause in summary["clauses"]]) == verdict, "R-SAY-2")
    results = members(summary["results"], "outcome task tool", "R-SAY-3")
    said = [result for result in results.values() if result is not None]
    need(all(isinstance(result, str) and result in VERDICTS for result in said), "R-SAY-3")
    need(not said or worst(said) == verdict, "R-SAY-3")
    if copy.manifest["format"] == "statediff/sealed/1.1":
        for name, truth in LISTS.items():
            listed = [part["clause"] for part in summary["clauses"] if part["truth"] == truth]
            need(copy.predicate[name] == listed, "R-PRED-4")


def _check_configuration(copy: Copy) -> None:
    if copy.manifest["format"] != "statediff/sealed/1.1":
        return
    configuration = copy.predicate["configuration"]
    need(len(configuration) == 1, "R-PRED-5")
    entry = members(configuration[0], "digest name", "R-PRED-5")
    digest = members(entry["digest"], "statediffLeaf", "R-PRED-5")["statediffLeaf"]
    name = copy.manifest["contract"] + "@" + copy.manifest["contract_version"]
    need(entry["name"] == name, "R-PRED-5")
    if "contract.yaml#" in copy.leaves:
        need(digest == copy.hashes["contract.yaml#"], "R-PRED-5")
    else:
        need(isinstance(digest, str) and digest in copy.withheld, "R-PRED-5")


def _check_judgement(copy: Copy) -> None:
    document, cuts = rest(copy.leaves["judgement.json#"])
    need(isinstance(document, dict), "R-SAY-4")
    need(document.get("verdict") == copy.manifest["verdict"], "R-SAY-4")
    if "summary#" in copy.leaves:
        summary = copy.leaves["summary#"]
        need("results" in document and same(document["results"], summary["results"]), "R-SAY-4")
        lengths = [length for pointer, length in cuts if pointer == "/clauses"]
        need(lengths == [len(summary["clauses"])], "R-SAY-4")


def _check_clauses(copy: Copy) -> None:
    clauses = copy.leaves["summary#"]["clauses"]
    prefix = "judgement.json#/clauses/"
    for path, value in copy.leaves.items():
        if not path.startswith(prefix):
            continue
        number = path[len(prefix) :]
        need(re.fullmatch("0|[1-9][0-9]{0,6}", number) is not None, "R-SAY-5")
        need(int(number) < len(clauses) and isinstance(value, dict), "R-SAY-5")
        for name, said in clauses[int(number)].items():
            need(value.get(name) == said, "R-SAY-5")


def _check_inner(copy: Copy) -> None:
    inner = copy.document("manifest.json")
    need(isinstance(inner, dict), "R-SAY-6")
    for name in "contract contract_version kernel statediff trial verdict".split():
        need(inner.get(name) == copy.manifest[name], "R-SAY-6")
    form, listed = inner.get("format"), inner.get("files")
    need(form in ("statediff/bundle/1", "statediff/bundle/1.1"), "R-SAY-7")
    need(isinstance(listed, dict), "R-SAY-7")
    kinds = {tag.split("/")[1] for tag in copy.manifest["tree"]["tags"]}
    observed = {"observation.json"} if "observation" in kinds else set()
    more = {"roots.json"} | observed if form.endswith(".1") else set()
    need(set(listed) == {*FILES} - {"manifest.json"} | more, "R-SAY-7")
    need(("roots.json" in listed) == ("roots" in kinds), "R-SAY-7")
    need(("observation.json" in listed) == ("observation" in kinds), "R-SAY-7")


def verify(files: dict[str, bytes], trust: Trust) -> tuple[Copy, str, dict[str, Any]]:
    """Return the copy, its status and the answer (R-ANS-4), or refuse it."""
    copy = open_copy(files, trust)
    check_closed(copy)
    if "summary#" in copy.leaves:
        _check_summary(copy)
    _check_configuration(copy)
    if "judgement.json#" in copy.leaves:
        _check_judgement(copy)
    if "summary#" in copy.leaves:
        _check_clauses(copy)
    if "manifest.json#" in copy.leaves:
        _check_inner(copy)
    whole = not set(copy.missing) - {"auditor/raw"}
    states = None
    if whole:
        _check_whole(copy)
        check_matchings(copy)
        if copy.document("manifest.json").get("format") == "statediff/bundle/1.1":
            states = check_states(copy)
    check_observed(copy, trust)
    answer: dict[str, Any] = {
        "verdict": copy.manifest["verdict"],
        "signers": copy.signers,
        "withheld": copy.missing,
        "states": states,
    }
    return copy, "VALID" if whole else "NOT_REPLAYABLE_AT_TIER", answer


def _shown(copy: Copy, name: str) -> Any:
    value = copy.leaves.get(name + "#")
    return value[0] if isinstance(value, list) and value else None


def meets(copy: Copy, options: dict[str, Any]) -> bool:
    """Tell whether a copy meets the demands made of it (R-DEM)."""
    wanted = options.get("contract")
    if wanted is not None:
        text = _shown(copy, "contract.yaml")
        if not isinstance(text, str) or sha_hex(text.encode()) != wanted:
            return False
    least = options.get("min_kernel")
    if least is not None:
        kernel = copy.manifest["kernel"]
        if re.fullmatch("[0-9]{1,4000}", kernel) is None or int(kernel) < int(least):
            return False
    isolation = options.get("isolation")
    if isolation is not None:
        trial = _shown(copy, "trial.json")
        said = trial.get("isolation") if isinstance(trial, dict) else None
        if not isinstance(said, str) or not set(isolation.split("+")) <= set(said.split("+")):
            return False
    return True
