"""A bundle judged again, from nothing but what it holds."""

from __future__ import annotations

from typing import Any

from statediff.errors import AdapterError, BundleError, NotReplayable, UsageError
from statediff.evaluate.contracts import Scoped, compile_contract, parse_contract
from statediff.evaluate.trial import KERNEL, Rest, compared, facts_of, judged, triples
from statediff.evidence import documents as doc
from statediff.evidence.canonical import write
from statediff.evidence.fragments import FragmentView, read_fragments
from statediff.evidence.pack import check_refusals, index
from statediff.evidence.package import Bundle
from statediff.evidence.traces import trace_from
from statediff.model.values import Unobserved
from statediff.model.verdict import Judgement
from statediff.model.view import Ledger
from statediff.policy.admission import admit
from statediff.policy.combine import combine


def replay(bundle: Bundle) -> Judgement:
    """The decision, made again from nothing but the bundle.

    `NotReplayable` if this kernel is another version or the bundle does not hold what the decision
    reads; `BundleError` if the replay and the recorded judgement differ in anything.
    """
    kernel = bundle.manifest.get("kernel")
    if kernel != KERNEL:
        raise NotReplayable(
            f"judged by kernel {kernel}, this is kernel {KERNEL}; install the version of "
            "statediff that wrote it"
        )
    try:
        judgement, facts = _replay(bundle)
    except (UsageError, AdapterError) as error:
        raise BundleError(f"the bundle holds what no trial could: {error}") from error
    except (
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise BundleError(f"the bundle contradicts itself: {error!r}") from error
    if write(doc.judgement_document(judgement)) != bundle.files["judgement.json"]:
        raise BundleError(
            f"the replay gives {judgement.verdict.value}, but not the recorded judgement; the "
            "bundle was changed"
        )
    for name, value in facts.items():
        if bundle.manifest.get(name) != value:
            raise BundleError(f"manifest.json: `{name}` is not what the other files say: {value}")
    return judgement


def _replay(bundle: Bundle) -> tuple[Judgement, dict[str, Any]]:
    file = parse_contract(
        bundle.files["contract.yaml"],
        "contract.yaml",
        lambda _name: bundle.files["transition.yaml"],
    )
    if file.recorded != bundle.files.get("transition.yaml"):
        raise BundleError("transition.yaml: the contract names no such file")
    recorded_schema = bundle.document("schema.json")
    schema = doc.schema_from(recorded_schema)
    compiled = compile_contract(file, schema)
    contract = compiled.contract
    captures, trial = bundle.document("captures.json"), bundle.document("trial.json")
    refusals = admit(
        [doc.reading_from(entry["reading"]) for entry in captures["before"]],
        [doc.reading_from(entry["reading"]) for entry in captures["after"]],
        doc.timeline_from(bundle.document("timeline.json")),
        contract.evidence,
        trial["sources"],
    )
    must = [r.source for r in contract.evidence]
    check_refusals(triples(refusals), captures, recorded_schema, must)
    answer = doc.answer_map(doc.answer_from(bundle.document("answer.json")))
    history = Unobserved(captures["history"]["unobserved"])
    rest = Rest(refusals, answer, history, trace_from(bundle.document("trace.json")))
    resolution = bundle.document("resolution.json")
    doubts = tuple(doc.doubt_from(entry) for entry in resolution["doubts"])
    cases = zip(
        bundle.document("fragments.json"),
        captures["enumerations"],
        bundle.document("index.json"),
        strict=True,
    )
    judgements = []
    for kept, enumerations, expected in cases:
        fragments = read_fragments(kept, schema, enumerations)
        changed = [(name, doc.key_from(key)) for name, key in expected["changed"]]
        found = compared(
            compiled,
            fragments.state("before", changed),
            fragments.state("after", changed),
            doubts,
            resolution["readings_of"],
        )
        scoped = Scoped(compiled.book, compiled.boundary, schema)
        views = (
            FragmentView(fragments, "before", scoped),
            FragmentView(fragments, "after", scoped),
        )
        ledger = Ledger()
        judgement = judged(compiled, views, found, rest, ledger)
        if index(judgement, ledger) != expected:
            raise BundleError("index.json: the fragments give other deltas or other reads")
        judgements.append(judgement)
    if not judgements:
        raise BundleError("fragments.json: no matching at all")
    ambiguous = [(name, cause) for name, cause in resolution["ambiguous"]]
    judgement = combine(contract, judgements, ambiguous, resolution["differ_only_in_opaque_ids"])
    return judgement, facts_of(file, compiled, judgement, trial["id"])
