"""A bundle judged again, from nothing but what it holds."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from statediff.contract.file import ContractFile
from statediff.errors import AdapterError, BundleError, NotReplayable, UsageError
from statediff.evidence import documents as doc
from statediff.evidence.disclosure.undisclosed import Shown, whole
from statediff.evidence.documents import trace_from
from statediff.evidence.fragments import ENDS, Fragments, FragmentView, check_places, read_fragments
from statediff.evidence.histories import course_from, history_from
from statediff.evidence.pack import (
    Touched,
    changed,
    check_refusals,
    distinct_places,
    index,
    touched_from,
)
from statediff.evidence.package import Bundle
from statediff.evidence.roots import CapturedKeys, check_states
from statediff.evidence.verify import BOUND, SIDES, STATE_ROOTS, UNBOUND, Rejected, bound_states
from statediff.kernel.along import moments_of, stands
from statediff.kernel.contracts import Compiled, compile_contract, contract_in
from statediff.kernel.policy.admission import Refusal, admit, read_answer
from statediff.kernel.policy.findings import combine
from statediff.kernel.policy.history import IntermediateStates
from statediff.kernel.policy.judge import Rest
from statediff.kernel.resolve import IdentityRule, natural_key
from statediff.kernel.trial import KERNEL, RELEASES, as_shown, facts_of, judged, triples
from statediff.model.timelines import Timelines
from statediff.model.values import Key, key_order
from statediff.model.verdict import Judgement, Moment
from statediff.model.view import Ledger, RecordingView, View


def replay(bundle: Bundle) -> Judgement:
    """The decision, made again from nothing but the bundle and what it does not show.

    `NotReplayable` if this kernel is another version or what the decision reads is not at hand;
    `BundleError` if the replay and the recorded judgement differ in anything.
    """
    require_kernel(bundle.manifest.get("kernel"))
    bundle = whole(bundle)
    try:
        judgement, facts = _replay(bundle)
    except (UsageError, AdapterError) as error:
        raise BundleError(f"the bundle holds what no trial could: {error}") from error
    if doc.judgement_bytes(judgement) != bundle.data("judgement.json"):
        raise BundleError(
            f"the replay gives {judgement.verdict.value}, but not the recorded judgement; the "
            "bundle was changed"
        )
    for name, value in facts.items():
        if bundle.manifest.get(name) != value:
            raise BundleError(f"manifest.json: `{name}` is not what the other files say: {value}")
    answer = doc.answer_from(bundle.document("answer.json"))
    return as_shown(judgement, Shown(trace_from(bundle.document("trace.json")), answer))


def require_kernel(kernel: object) -> None:
    """Raise `NotReplayable` where a judgement of that kernel cannot be made again here."""
    if kernel != KERNEL:
        raise NotReplayable(
            f"judged by kernel {kernel}, this is kernel {KERNEL}; {_needed(kernel)}"
        )


def _needed(kernel: object) -> str:
    """Advice about a bundle of another kernel."""
    release = RELEASES.get(str(kernel))
    if release is None:
        return "this version knows no release with that kernel; install the one that wrote it"
    return f"install statediff {release} to replay it"


MAX_MOMENTS: Final = 64
"""Transactions of a run of which a report says how the run stood after them."""


def course_of(bundle: Bundle) -> tuple[Moment, ...]:
    """How the run stood after each of its transactions, in order, by its states alone.

    Empty where that is not known: without a history of every type, where the bundle lacks what a
    moment is judged by or is of another kernel, and after more than `MAX_MOMENTS` transactions.
    """
    try:
        if not bundle.document("captures.json")["history"]["transactions"]:
            return ()
        require_kernel(bundle.manifest.get("kernel"))
        return tuple(_course(_recorded(whole(bundle))))
    except (BundleError, NotReplayable, UsageError, AdapterError):
        return ()


def _course(held: _Recorded) -> Iterator[Moment]:
    compiled, course, [fragments, *others] = held.compiled, held.course, held.every
    number = sum(len(line.steps) for line in course.lines)
    if others or not 0 < number <= MAX_MOMENTS:
        return
    views: dict[str, View] = {
        side: FragmentView(fragments, side, compiled.scoped)
        for line in course.lines
        for side in {"before", "after", *map(line.side, range(len(line.steps) + 1))}
    }
    places = touched_from(held.cases[0][2])
    moments = moments_of(compiled, course, views, fragments, places, held.rest.trace)
    yield from stands(compiled.contract, moments, held.rest.refusals, held.rest.trace)


class _Recorded(NamedTuple):
    """A trial out of its bundle, ready to be judged."""

    file: ContractFile
    compiled: Compiled
    rest: Rest
    course: Timelines
    resolution: Any
    cases: list[tuple[Any, Any, Any]]
    every: list[Fragments]
    moved: Sequence[Sequence[tuple[str, Key]]]
    trial: Any


def _recorded(bundle: Bundle) -> _Recorded:
    file = contract_in(bundle.files)
    recorded_schema = _document(bundle, "schema.json")
    schema = doc.schema_from(recorded_schema)
    compiled = compile_contract(file, schema)
    contract = compiled.contract
    captures, trial = _document(bundle, "captures.json"), _document(bundle, "trial.json")
    timeline = doc.timeline_from(_document(bundle, "timeline.json"))
    refusals = admit(
        [doc.reading_from(entry["reading"]) for entry in captures["before"]],
        [doc.reading_from(entry["reading"]) for entry in captures["after"]],
        timeline,
        contract.evidence,
        trial["sources"],
    )
    must = [r.source for r in contract.evidence]
    check_refusals(triples(refusals), captures, recorded_schema, must)
    answer = read_answer(
        contract.document.answer, doc.answer_from(_document(bundle, "answer.json"))
    )
    course = course_from(captures["history"])
    check_course(course, captures, refusals)
    ending = doc.ending_from(trial.get("ending"))
    trace = trace_from(_document(bundle, "trace.json"))
    rest = Rest(refusals, answer, trace, ending, timeline)
    resolution = _document(bundle, "resolution.json")
    if resolution["doubts"] != []:
        raise BundleError("resolution.json: expected no doubts, found some")
    cases = _cases(bundle, captures, resolution)
    every = [read_fragments(kept, schema, enumerations) for kept, enumerations, _ in cases]
    moved = _moved(bundle, captures, resolution, every)
    _check_pairs(compiled.identities, resolution, every)
    return _Recorded(file, compiled, rest, course, resolution, cases, every, moved, trial)


def _replay(bundle: Bundle) -> tuple[Judgement, dict[str, Any]]:
    held = _recorded(bundle)
    compiled, course, rest, resolution = held.compiled, held.course, held.rest, held.resolution
    contract = compiled.contract
    judgements = []
    for (_, _, expected), fragments, differing in zip(
        held.cases, held.every, held.moved, strict=True
    ):
        changed = [(name, doc.key_from(key)) for name, key in expected["changed"]]
        places = touched_from(expected)
        check_places(fragments, changed, places, course)
        listed = distinct_places([*changed, *differing])
        found = compiled.diff(
            fragments.state("before", listed),
            fragments.state("after", listed),
            resolution["readings_of"],
        )
        ledger = Ledger()
        sides = {line.side(n) for line in course.lines for n in range(len(line.steps) + 1)}
        views = {
            side: RecordingView(FragmentView(fragments, side, compiled.scoped), side, ledger)
            for side in {"before", "after", *sides}
        }
        moments = moments_of(compiled, course, views, fragments, places, rest.trace)
        judgement = judged(compiled, moments, found, rest, ledger)
        if index(judgement, ledger, _touched(moments)) != expected:
            raise BundleError("index.json: the fragments give other deltas or other reads")
        judgements.append(judgement)
    ambiguous = [(name, cause) for name, cause in resolution["ambiguous"]]
    judgement = combine(contract, judgements, ambiguous, resolution["differ_only_in_opaque_ids"])
    return judgement, facts_of(held.file, compiled, judgement, held.trial["id"])


def _document(bundle: Bundle, name: str) -> Any:
    document = bundle.document(name)
    doc.check_shape(document, name)
    return document


def _cases(bundle: Bundle, captures: Any, resolution: Any) -> list[tuple[Any, Any, Any]]:
    """(fragments, enumerations, index) of each matching, of which there is at least one."""
    fragments, indexes = _document(bundle, "fragments.json"), _document(bundle, "index.json")
    enumerations = captures["enumerations"]
    if not fragments:
        raise BundleError("fragments.json: no matching at all")
    if not len(fragments) == len(enumerations) == len(indexes):
        raise BundleError(
            f"fragments.json: {len(fragments)} matchings, but {len(enumerations)} in "
            f"captures.json and {len(indexes)} in index.json"
        )
    if len(fragments) > 1 and not resolution["ambiguous"]:
        raise BundleError("resolution.json: several matchings, but nothing is ambiguous")
    return list(zip(fragments, enumerations, indexes, strict=True))


def _moved(
    bundle: Bundle, captures: Any, resolution: Any, every: Sequence[Fragments]
) -> Sequence[Sequence[tuple[str, Key]]]:
    """The moved entities of each matching by the state roots, which the fragments are under.

    Nothing of a bundle without roots. `BundleError`.
    """
    mappings = resolution["mappings"]
    if len(mappings) != len(every):
        raise BundleError("resolution.json: not as many mappings as matchings")
    if bundle.manifest["format"] == UNBOUND:
        if "roots" in captures or STATE_ROOTS in bundle.files:
            raise BundleError(f"manifest.json: a bundle with state roots is of format {BOUND}")
        return [()] * len(every)
    document = _document(bundle, STATE_ROOTS)
    _check_readings(captures, resolution, document)
    try:
        bound_states(_binding(bundle, captures, resolution, document))
    except Rejected as error:
        raise BundleError(str(error)) from error
    cases = [
        (fragments, CapturedKeys.of_document(pairs, fragments.schema), enumerations)
        for fragments, pairs, enumerations in zip(
            every, mappings, captures["enumerations"], strict=True
        )
    ]
    return check_states(document, cases)


def _check_readings(captures: Any, resolution: Any, roots: Any) -> None:
    """Each type was read by the readings of the sources that have a root of it. `BundleError`."""
    for number, side in enumerate(SIDES):
        own = [entry["reading"] for entry in captures[side]]
        read = {
            (name, each["id"])
            for source, name, *ends in roots["types"]
            for each in own
            if ends[number] and each["source"] == source
        }
        said = {(name, each) for name, *ids in resolution["readings_of"] for each in ids[number]}
        if wrong := sorted(said ^ read):
            raise BundleError("resolution.json: not the reading of {}: {}".format(*wrong[0]))


def _check_pairs(
    rules: Sequence[IdentityRule], resolution: Any, every: Sequence[Fragments]
) -> None:
    """Raise `BundleError` where entities are paired by anything but the contract's rules.

    Of several matchings, a type that could be paired in several ways is left out: they are
    candidates. Entities that stay open are in no matching.
    """
    of_type = {rule.type: rule for rule in rules}
    ambiguous = {name for name, _ in resolution["ambiguous"]} if len(every) > 1 else set()
    for mappings, fragments in zip(resolution["mappings"], every, strict=True):
        paired: dict[str, set[Any]] = {}
        for each in mappings:
            rule = of_type.get(each["type"])
            if rule is None or rule.name != each["rule"]:
                raise BundleError(f"resolution.json: no rule of the contract is {each['rule']}")
            paired.setdefault(rule.type, set()).add(key_order(doc.key_from(each["before"])))
        for rule in rules:
            if rule.type not in ambiguous:
                _check_paired(rule, fragments, paired.get(rule.type, set()))


def _check_paired(rule: IdentityRule, fragments: Fragments, paired: Container[Any]) -> None:
    """Entities of one natural key are one, and those of two are two."""
    rows: dict[Any, dict[str, Any]] = {}
    for look, row in fragments.rows.items():
        if look.type == rule.type and look.side in ENDS and row is not None:
            rows.setdefault(key_order(look.key), {})[look.side] = row
    gone, come = set[str | None](), set[str | None]()
    for key, sides in rows.items():
        names = {side: natural_key(rule, row) for side, row in sides.items()}
        if key in paired and (None in names.values() or len(set(names.values())) > 1):
            raise BundleError(f"resolution.json: {rule.name}: two entities are paired as one")
        if key not in paired and len(sides) == 1:
            (gone if "before" in sides else come).update(names.values())
    if (gone & come) - {None}:
        raise BundleError(f"resolution.json: {rule.name}: one entity is not paired with itself")


def _binding(bundle: Bundle, captures: Any, resolution: Any, document: Any) -> dict[str, Any]:
    """The pieces that `bound_states` looks at, by their places."""
    fragments = bundle.document("fragments.json")
    lists = [
        *(
            (f"captures.json#/enumerations/{n}", one)
            for n, one in enumerate(captures["enumerations"])
        ),
        *((f"resolution.json#/mappings/{n}", one) for n, one in enumerate(resolution["mappings"])),
        *((f"fragments.json#/{n}/rows", one["rows"]) for n, one in enumerate(fragments)),
    ]
    members = [
        [f"/{n}/scans/{at}/members", len(scan["members"])]
        for n, one in enumerate(fragments)
        for at, scan in enumerate(one["scans"])
    ]
    found = {f"{name}/{at}": value for name, values in lists for at, value in enumerate(values)}
    rests = {"manifest": bundle.manifest, "captures": captures, "roots": document}
    rests["schema"] = bundle.document("schema.json")
    found |= {f"{name}.json#": [rest, []] for name, rest in rests.items()}
    return {**found, "fragments.json#": [fragments, members]}


def _touched(moments: IntermediateStates) -> Touched:
    """The entities that each transaction touched, by what it changed."""
    found = {
        (source, number): changed(commit.own)
        for source, commits in moments.commits.items()
        for number, commit in enumerate(commits, start=1)
    }
    return {place: entities for place, entities in found.items() if entities}


def check_course(timelines: Timelines, captures: Any, refusals: Iterable[Refusal]) -> None:
    """`BundleError` unless each line is as complete as its reading, and ends in the state after."""
    history = history_from(captures["history"])
    refused = {refusal.source: refusal.cause for refusal in refusals}
    for line in timelines.lines:
        gap = refused.get(line.source, history.gap(line.source))
        if (gap is None) != (line.gap is None):
            raise BundleError(
                f"captures.json: the history of {line.source} is not as complete as its reading"
            )
        digests = [
            entry["state"]
            for side in ("before", "after") for entry in captures[side]
            if entry["reading"]["source"] == line.source
        ]  # fmt: skip
        steps = captures["history"]["transactions"]
        within = [entry["state"] for entry in steps if entry["source"] == line.source]
        if gap is None and (len(digests) != 2 or [digests[0], *within][-1] != digests[1]):
            raise BundleError(
                f"captures.json: the history of {line.source} does not end in the state after"
            )
