"""The pipeline, and its replay.

1. `admission`: which readings may be used.
2. `resolve`: from captures to states, and every admissible pairing of entities.
3. `canonicalize`: ν over each pairing, row by row, raw values kept.
4. `diff`: deltas within Ω; `policy`: every clause, forbidden first, the frame, the required.
5. `evidence`: what the decision read, packed so that `replay` can decide it again.

The only module that names all five stages. Clocks, ids and seeds are arguments: the same inputs
give the same bundle, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from statediff import __version__
from statediff.canonicalize import RuleBook, canonicalize, rule_book
from statediff.contract.bind import Policy, bind
from statediff.contract.bound import Contract
from statediff.contract.document import Canonicalize, ContractDocument
from statediff.contract.load import parse_document, read_bytes
from statediff.contract.reader import Document
from statediff.diff import diff
from statediff.errors import BundleError, ContractError, NotReplayable
from statediff.evidence import documents as doc
from statediff.evidence.canonical import write
from statediff.evidence.fragments import FragmentView, Fragments, collect, read_fragments, scan_id
from statediff.evidence.fragments import fragment_id
from statediff.evidence.package import Bundle, make
from statediff.model.boundary import Boundary, RuleError
from statediff.model.delta import Diff, Doubt
from statediff.model.readings import Capture, Timeline
from statediff.model.schema import Schema, merge_schemas
from statediff.model.stages import Matching, Resolution
from statediff.model.state import Row
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Excluded, Key, Observed, Unobserved, Value
from statediff.model.verdict import Judgement, Truth, Verdict
from statediff.model.view import Ledger, RecordingView, StateView, View
from statediff.policy.admission import Refusal, admit
from statediff.policy.combine import combine
from statediff.policy.judge import Evidence, judge
from statediff.resolve import IdentityRule, resolve

KERNEL: Final = "1"
"""Version of the judging kernel; raised by hand when any judgement could change."""


@dataclass(frozen=True)
class ContractFile:
    """A contract as read: its bytes, where its parts stand, and its content."""

    data: bytes
    source: Document
    content: ContractDocument

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()


def load_contract(path: Path) -> ContractFile:
    """The contract in a file; `UsageError` or `ContractError` with places."""
    return parse_contract(read_bytes(path), str(path))


def parse_contract(data: bytes, file: str) -> ContractFile:
    """The contract in `data`; `file` is the name used in messages."""
    source, content = parse_document(data, file)
    return ContractFile(data, source, content)


@dataclass(frozen=True)
class TrialFacts:
    """What a bundle says of its trial. Ids and seeds are given, never made up here."""

    id: str
    agent: str = "none"
    sandbox: str | None = None
    isolation: str = "none"
    seed: int = 0
    receipt: Mapping[str, Any] = field(default_factory=dict)
    """The reset's receipt as a document without floats; empty where there was no sandbox."""


@dataclass(frozen=True)
class Compiled:
    """A contract bound to the schema of a pair of captures."""

    contract: Contract
    book: RuleBook
    boundary: Boundary
    identities: tuple[IdentityRule, ...]


@dataclass(frozen=True)
class Evaluated:
    """A judged trial: the judgement and its bundle."""

    judgement: Judgement
    bundle: Bundle
    contract: Contract


class _Scoped:
    """ν and Ω as one row transform: excluded fields show as excluded, whoever looks."""

    def __init__(self, book: RuleBook, boundary: Boundary, schema: Schema) -> None:
        self._book = book
        self._outside = {
            t.name: {f.name: rule for f in t.fields
                     if (rule := boundary.excludes(t.name, f.name)) is not None}
            for t in schema.types}

    def touches(self, type_name: str) -> bool:
        return self._book.touches(type_name) or bool(self._outside.get(type_name))

    def row(self, type_name: str, row: Mapping[str, object]) -> Row:
        canonical = self._book.row(type_name, row)
        for name, rule in self._outside.get(type_name, {}).items():
            if name in canonical:
                canonical[name] = Excluded(rule)
        return canonical


# ---------------------------------------------------------------- compiling


def compile_contract(file: ContractFile, schema: Schema) -> Compiled:
    """The contract over a schema. `ContractError` with every problem found in one stage."""
    content = file.content
    section = "exclude"
    try:
        boundary = Boundary(schema, [(e.what, e.because) for e in content.exclude])
        section = "canonicalize"
        book = rule_book(schema, content.canonicalize)
        section = "identify"
        identities = tuple(_identity(schema, i, content) for i in range(len(content.identify)))
    except RuleError as error:
        problem = file.source.problem((section, error.index), error.message, code=section)
        raise ContractError((problem,)) from error

    def excluded(type_name: str, field_name: str) -> str | None:
        return boundary.excludes(type_name, field_name) or (
            book.ignores(type_name, field_name) if field_name else None)

    policy = Policy(book.literal, book.kind_of, excluded)
    return Compiled(bind(content, file.digest, schema, policy, file.source.locate), book, boundary, identities)


def _identity(schema: Schema, index: int, content: ContractDocument) -> IdentityRule:
    rule = content.identify[index]
    entity = schema.by_name.get(rule.type)
    if entity is None:
        raise RuleError(index, f"unknown entity type `{rule.type}`")
    if not entity.is_keyless:
        raise RuleError(index, f"{rule.type} has a stable key ({', '.join(entity.key)}); "
                               "identity is never matched on anything else")
    fields = []
    for name, use in rule.match_on.items():
        if name not in entity.by_name:
            raise RuleError(index, f"{rule.type} has no field `{name}`")
        book = rule_book(schema, () if use is None else (Canonicalize(
            use=use, on=(f"{rule.type}.{name}",), because=rule.because),))
        fields.append((name, use or "", _on(book, rule.type, name)))
    return IdentityRule(rule.type, rule.version, rule.because, tuple(fields))


def _on(book: RuleBook, type_name: str, field_name: str) -> Any:
    def apply(value: Observed) -> Observed:
        return book.value(type_name, field_name, value)

    return apply


def schema_of(*captures: Capture) -> Schema:
    """One schema over every source of the captures."""
    return merge_schemas(tuple(p.state.schema for c in captures for p in c.parts))


# ---------------------------------------------------------------- judging


def evaluate(
    file: ContractFile,
    before: Capture,
    after: Capture,
    *,
    trace: Trace = Trace(),
    answer: Value | NoAnswer = NoAnswer("none was given"),
    timeline: Timeline | None = None,
    facts: TrialFacts = TrialFacts("trial"),
) -> Evaluated:
    """The judged trial. `ContractError` if the contract does not fit, or would match a run in
    which nothing happened without saying `noop: true`."""
    compiled = compile_contract(file, schema_of(before, after))
    contract = compiled.contract
    refusals = admit(before, after, timeline, contract.evidence)
    authority = {name: r.source for r in contract.evidence for name in r.authority}
    resolution = resolve(before, after, compiled.identities, authority,
                         {(r.side, r.source): r.cause for r in refusals})
    check_null_run(file, compiled, resolution, refusals)
    answers = doc.answer_map(answer)
    ledgers: list[Ledger] = []
    judgements: list[Judgement] = []
    for matching in resolution.matchings:
        ledger = Ledger()
        judgements.append(_judge_states(compiled, matching, resolution, refusals, answers,
                                        after.history, ledger))
        ledgers.append(ledger)
    judgement = combine(contract, judgements, resolution.ambiguous,
                        resolution.differ_only_in_opaque_ids)
    bundle = _pack(file, compiled, before, after, resolution, refusals, judgements, ledgers,
                   judgement, trace, answer, timeline, facts)
    return Evaluated(judgement, bundle, contract)


def _judge_states(compiled: Compiled, matching: Matching, resolution: Resolution,
                  refusals: tuple[Refusal, ...], answer: Mapping[str, Value] | NoAnswer,
                  history: Any, ledger: Ledger) -> Judgement:
    canonical = canonicalize(matching, compiled.book, resolution.doubts)
    evidence = {name: (b, a) for name, b, a in resolution.readings_of}
    found = diff(canonical.before, canonical.after, compiled.book, compiled.boundary,
                 rule_names=compiled.book.rules_on, doubts=canonical.doubts, evidence=evidence)
    scoped = _Scoped(compiled.book, compiled.boundary, matching.before.schema)
    return _judge(compiled, StateView(matching.before, scoped), StateView(matching.after, scoped),
                  found, refusals, answer, history, ledger)


def _judge(compiled: Compiled, before: View, after: View, found: Diff,
           refusals: tuple[Refusal, ...], answer: Mapping[str, Value] | NoAnswer, history: Any,
           ledger: Ledger) -> Judgement:
    return judge(compiled.contract, Evidence(
        RecordingView(before, "before", ledger), RecordingView(after, "after", ledger),
        found, answer, history, refusals, ledger.begin))


def check_null_run(file: ContractFile, compiled: Compiled, resolution: Resolution,
                   refusals: Iterable[Refusal] = ()) -> Judgement:
    """The judgement of a run in which nothing happened and nothing was said.

    `ContractError` if it would MATCH and the contract does not say `noop: true`.
    """
    matching = Matching(resolution.matchings[0].before, resolution.matchings[0].before)
    still = Resolution((matching,), (), (), True, resolution.readings_of)
    null = _judge_states(compiled, matching, still,
                         tuple(r for r in refusals if r.side == "before"),
                         NoAnswer("the null run says nothing"),
                         Unobserved("the null run has no history"), Ledger())
    if null.verdict is Verdict.MATCH and not file.content.noop:
        raise ContractError((file.source.problem(
            ("contract",), "a run in which nothing happens would MATCH this contract",
            code="null-run", hint="require what must change, or say `noop: true` if nothing must"),
        ))
    return null


# ---------------------------------------------------------------- packing and replay


def _changed(judgement: Judgement) -> tuple[tuple[str, Key], ...]:
    found = {(d.type, d.key) for d in judgement.deltas}
    found |= {(h.delta.type, h.delta.key) for h in judgement.hidden}
    found |= {(d.type, d.key) for d in judgement.doubts if d.key is not None}
    return tuple(sorted(found, key=lambda pair: (pair[0], str(pair[1]))))


def _pack(file: ContractFile, compiled: Compiled, before: Capture, after: Capture,
          resolution: Resolution, refusals: tuple[Refusal, ...], judgements: list[Judgement],
          ledgers: list[Ledger], judgement: Judgement, trace: Trace, answer: Value | NoAnswer,
          timeline: Timeline | None, facts: TrialFacts) -> Bundle:
    fragments, index, enumerations, mappings = [], [], [], []
    for matching, single, ledger in zip(resolution.matchings, judgements, ledgers, strict=True):
        states = {"before": matching.before, "after": matching.after}
        changed = _changed(single)
        fragments.append(collect(
            states, {look for looks in ledger.looks.values() for look in looks},
            {scan for scans in ledger.scans.values() for scan in scans}, changed,
            compiled.book.touches))
        index.append({
            "changed": [[name, doc.key_document(key)] for name, key in changed],
            "deltas": _count(d.type for d in single.deltas),
            "hidden": _count(h.delta.type for h in single.hidden),
            "read_sets": _read_sets(ledger)})
        enumerations.append([
            [side, name, doc.enumeration_document(table.enumeration)]
            for side, state in states.items() for name, table in sorted(state.tables.items())])
        mappings.append([{"type": p.type, "rule": p.rule, "before": doc.key_document(p.before),
                          "after": doc.key_document(p.after)} for p in matching.pairs])
    schema = resolution.matchings[0].before.schema
    content = {
        "schema.json": doc.schema_document(schema),
        "captures.json": {
            "before": doc.capture_document(before), "after": doc.capture_document(after),
            "enumerations": enumerations,
            "refusals": [[r.side, r.source, r.cause] for r in refusals],
            "history": None if not isinstance(after.history, Unobserved) else {
                "unobserved": after.history.cause}},
        "resolution.json": {
            "mappings": mappings, "ambiguous": [list(a) for a in resolution.ambiguous],
            "differ_only_in_opaque_ids": resolution.differ_only_in_opaque_ids,
            "doubts": [doc.doubt_document(d) for d in resolution.doubts],
            "readings_of": [[n, list(b), list(a)] for n, b, a in resolution.readings_of]},
        "fragments.json": fragments,
        "index.json": index,
        "trace.json": doc.trace_document(trace),
        "answer.json": doc.answer_document(answer),
        "timeline.json": doc.timeline_document(timeline),
        "trial.json": {"id": facts.id, "agent": facts.agent, "sandbox": facts.sandbox,
                       "isolation": facts.isolation, "seed": facts.seed,
                       "receipt": dict(facts.receipt)},
        "judgement.json": doc.judgement_document(judgement),
    }
    return make(content, file.data, {
        "kernel": KERNEL, "statediff": __version__, "trial": facts.id,
        "contract": file.content.contract, "contract_version": file.content.version,
        "contract_digest": file.digest, "schema": f"{schema.name}@{schema.version}",
        "verdict": judgement.verdict.value,
        "rules": sorted({use.rule.id for use in compiled.book.uses}),
    })


def _count(types: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in types:
        counts[name] = counts.get(name, 0) + 1
    return counts


def _read_sets(ledger: Ledger) -> dict[str, list[str]]:
    sets: dict[str, set[str]] = {}
    for clause, looks in ledger.looks.items():
        sets.setdefault(clause, set()).update(
            fragment_id(k.side, k.type, k.key) for k in looks)
    for clause, scans in ledger.scans.items():
        sets.setdefault(clause, set()).update(scan_id(s) for s in scans)
    return {clause: sorted(ids) for clause, ids in sorted(sets.items())}


def replay(bundle: Bundle) -> Judgement:
    """The decision, made again from nothing but the bundle.

    `NotReplayable` if this kernel is another version or the bundle does not hold what the decision
    reads; `BundleError` if the replay and the recorded judgement differ in anything.
    """
    if bundle.manifest.get("kernel") != KERNEL:
        raise NotReplayable(f"judged by kernel {bundle.manifest.get('kernel')}, this is kernel "
                            f"{KERNEL}; install the version of statediff that wrote it")
    try:
        judgement = _replay(bundle)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise BundleError(f"the bundle contradicts itself: {error!r}") from error
    if write(doc.judgement_document(judgement)) != bundle.files["judgement.json"]:
        raise BundleError(f"the replay gives {judgement.verdict.value}, but not the recorded "
                          "judgement; the bundle was changed")
    if judgement.verdict.value != bundle.manifest.get("verdict"):
        raise BundleError("the manifest names another verdict than the judgement")
    return judgement


def _replay(bundle: Bundle) -> Judgement:
    file = parse_contract(bundle.files["contract.yaml"], "contract.yaml")
    schema = doc.schema_from(bundle.document("schema.json"))
    compiled = compile_contract(file, schema)
    captures = bundle.document("captures.json")
    resolution = bundle.document("resolution.json")
    refusals = tuple(Refusal(source, side, cause) for side, source, cause in captures["refusals"])
    history = Unobserved(captures["history"]["unobserved"])
    answer = doc.answer_map(doc.answer_from(bundle.document("answer.json")))
    doubts = tuple(
        Doubt(d["type"], None if d["key"] is None else doc.key_from(d["key"]), d["path"],
              d["cause"], d["stage"], d["source"]) for d in resolution["doubts"])
    evidence = {n: (tuple(b), tuple(a)) for n, b, a in resolution["readings_of"]}
    index = bundle.document("index.json")
    judgements = []
    for at, entry in enumerate(bundle.document("fragments.json")):
        fragments = read_fragments(entry, schema, captures["enumerations"][at])
        changed = tuple((name, doc.key_from(key)) for name, key in index[at]["changed"])
        judgements.append(_judge_fragments(compiled, fragments, changed, doubts, evidence,
                                           refusals, answer, history, index[at]))
    if not judgements:
        raise BundleError("fragments.json: no matching at all")
    ambiguous = [(name, cause) for name, cause in resolution["ambiguous"]]
    return combine(compiled.contract, judgements, ambiguous,
                   resolution["differ_only_in_opaque_ids"])


def _judge_fragments(compiled: Compiled, fragments: Fragments, changed: tuple[tuple[str, Key], ...],
                     doubts: tuple[Doubt, ...], evidence: Mapping[str, Any],
                     refusals: tuple[Refusal, ...], answer: Mapping[str, Value] | NoAnswer,
                     history: Unobserved, index: Mapping[str, Any]) -> Judgement:
    found = diff(fragments.state("before", changed), fragments.state("after", changed),
                 compiled.book, compiled.boundary, rule_names=compiled.book.rules_on,
                 doubts=doubts, evidence=evidence)
    if _count(d.type for d in found.deltas) != index["deltas"] or _count(
            h.delta.type for h in found.hidden) != index["hidden"]:
        raise BundleError("the fragments do not give the deltas that the index counts")
    scoped = _Scoped(compiled.book, compiled.boundary, fragments.schema)
    ledger = Ledger()
    judgement = _judge(compiled, FragmentView(fragments, "before", scoped),
                       FragmentView(fragments, "after", scoped), found, refusals, answer, history,
                       ledger)
    if _read_sets(ledger) != index["read_sets"]:
        raise BundleError("the replay reads other fragments than the index lists")
    return judgement


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """0 all MATCH, 1 any DIVERGE, 3 INCONCLUSIVE and no DIVERGE (DESIGN.md §11)."""
    found = set(verdicts)
    if Verdict.DIVERGE in found:
        return 1
    return 3 if Verdict.INCONCLUSIVE in found else 0


def failed(judgement: Judgement) -> tuple[str, ...]:
    """The clauses that do not hold, in report order."""
    return tuple(c.clause for c in judgement.clauses if c.truth is not Truth.HOLDS)
