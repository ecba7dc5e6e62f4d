"""A bundle checked against files elsewhere: the contract, and a run's chunks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statediff.capture.bounds import bound_captures
from statediff.errors import BundleError, StatediffError, UsageError
from statediff.evidence import documents as doc
from statediff.evidence.disclosure.undisclosed import whole
from statediff.evidence.documents import schema_from, trace_from
from statediff.evidence.roots import Roots
from statediff.evidence.vault import Vault
from statediff.kernel import TrialFacts, compile_contract, contract_in, evaluate
from statediff.trial_folder import trial_captures, vault_of
from statediff.workspace.contracts import contract_path
from statediff.workspace.runfolders import run_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statediff.contract.binding.bound import Contract
    from statediff.evidence.package import Bundle
    from statediff.evidence.verify import Verified


def require_contract(bundle: Bundle, contract: str) -> None:
    """The bundle was judged under these very bytes of the contract. `BundleError`."""
    path = contract_path(contract)
    if path.read_bytes() != bundle.data("contract.yaml"):
        named = f"{bundle.manifest['contract']}@{bundle.manifest['contract_version']}"
        raise BundleError(f"contract.yaml: {named} was judged by other bytes than those of {path}")


def unbound(found: Verified) -> list[str]:
    """Evidence of a verified copy that is under none of its state roots, in words.

    Sorted; empty where all that its clauses can have read of states is bound.
    """
    if found.states is None:
        return ["the states"]
    at = {leaf.path: leaf.value for leaf in found.leaves}
    try:
        contract = _contract_of(at)
        sources = Counter(name for _source, name, *_heads in at["roots.json#"][0]["types"])
    except _NOT_READ:
        return ["the states, for this version does not read the contract"]
    return [
        *(f"{each}, which several sources have" for each, n in sorted(sources.items()) if n > 1),
        *(f"what {each} was between the ends" for each in sorted(contract.followed)),
    ]


def is_ending_open(found: Verified) -> bool:
    """True where the contract asks how the run ended, and the copy leaves out what was observed.

    Of a contract that this version does not read nothing is bound, as `unbound` says.
    """
    if found.status != "VALID" or found.observed is None or "ending" in found.observed.shown:
        return False
    try:
        return _contract_of({leaf.path: leaf.value for leaf in found.leaves}).asks_how_it_ended
    except _NOT_READ:
        return False


_NOT_READ: Final = (StatediffError, LookupError, TypeError, ValueError, AttributeError)


def _contract_of(at: Mapping[str, Any]) -> Contract:
    """The contract of a copy, by its leaves, bound to its schema. Raises one of `_NOT_READ`."""
    files = {"contract.yaml": at["contract.yaml#"][0].encode()}
    return compile_contract(contract_in(files), schema_from(at["schema.json#"][0])).contract


def require_chunks(bundle: Bundle, run: Path, vault: Path | None = None) -> None:
    """The bundle is what a judgement of the states that the run kept of its trial gives.

    All of them: both ends, by every row of which the state roots are made anew under the run's
    secret, each source's own, and those between the ends. The calls, the answer and the times are
    the bundle's. The keys of what `retain` limits are in the vault, or in the one that the run
    names. `BundleError` where they differ, `UsageError` where the run or bundle has none.
    """
    expected = bundle.document("captures.json").get("roots")
    if expected is None:
        raise UsageError("the bundle has no state roots; it was written before there were any")
    name = str(bundle.manifest["trial"])
    folder = run / "trials" / name
    if Path(name).name != name or not folder.is_dir():
        raise UsageError(f"{run}: holds no such trial as the bundle's")
    before, after = trial_captures(folder, run, vault_of(run) if vault is None else Vault(vault))
    secret = run_secret(run)
    roots = Roots.of(*bound_captures(before, after), secret)
    if dict(roots.by_side) != expected:
        raise BundleError(f"captures.json: the state roots are not those of the chunks of {run}")
    trial = bundle.document("trial.json")
    known = {
        "seed": int(trial["seed"]),
        "sources": tuple(trial["sources"]),
        "ending": doc.ending_from(trial.get("ending")),
    }
    facts = TrialFacts(**{**trial, **known}, secret=secret)
    judged = whole(bundle)
    again = evaluate(
        contract_in(bundle.files),
        before,
        after,
        trace=trace_from(judged.document("trace.json")),
        answer=doc.answer_from(judged.document("answer.json")),
        timeline=doc.timeline_from(bundle.document("timeline.json")),
        facts=facts,
        roots=roots,
    ).bundle
    for file in ("captures.json", "resolution.json", "fragments.json", "judgement.json"):
        if again.data(file) != bundle.data(file):
            raise BundleError(f"{file}: not what the states that {run} kept give")
