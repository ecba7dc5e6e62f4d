"""A misshapen bundle is refused by name; an error inside judging is one of statediff, and shows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import statediff.kernel.policy.judge as judge_stage
import statediff.kernel.trial as trial_stage
from statediff.errors import BundleError, InputError
from statediff.evidence.canonical import write
from statediff.evidence.package import Bundle
from statediff.kernel import replay, replaying
from statediff.model.trace import Turn
from statediff.model.values import decode
from tests.evidence.mutants import restructured
from tests.evidence.test_bundle import TRIALS, resealed, verdict_in, verdict_of
from tests.judging import TIMELINE, run, user
from tests.test_resolve import IDENTIFY, people
from tests.traces import call, log

CALLS = log(call("set", n=1), call("get", n=2), turns=(Turn("do it", 0), Turn("again", 1)))
SEEDS: dict[str, Bundle] = {
    **{kind: done.bundle for kind, done in TRIALS.items()},
    "MATCH, calls": run(
        "forbid: [{id: f, delete: user}]\n", {"user": [user(1)]}, {"user": [user(1)]},
        trace=CALLS, timeline=TIMELINE,
    ).bundle,
    "DIVERGE, matchings": run(
        IDENTIFY + "forbid:\n  - {id: any, delete: person}\n",
        people(("a", "user"), ("a", "boss")), people(("a", "user"), ("a", "x")),
    ).bundle,
    "DIVERGE, keyless": run(
        "forbid: [{id: f, create: log}]\n", {"log": [{"what": "a", "n": 1}]},
        {"log": [{"what": "a", "n": 1}, {"what": "b", "n": 2}]},
    ).bundle,
}  # fmt: skip
DOCUMENTS = (
    "answer.json", "captures.json", "fragments.json", "index.json", "resolution.json",
    "schema.json", "timeline.json", "trace.json", "trial.json",
)  # fmt: skip


def with_document(bundle: Bundle, name: str, document: Any) -> Bundle:
    return resealed(bundle, {**bundle.files, name: write(document)})


@pytest.mark.slow
def test_no_mutant_of_a_document_gets_past_as_anything_but_a_bundle_error() -> None:
    draw, ends = random.Random(5), Counter[str]()
    while ends.total() < 600:
        kind, name = draw.choice(sorted(SEEDS)), draw.choice(DOCUMENTS)
        data = restructured(SEEDS[kind].files[name], draw)
        if data is None:
            continue
        verdict = verdict_of(resealed(SEEDS[kind], {**SEEDS[kind].files, name: data}))
        ends["refused" if verdict is None else "replayed"] += 1
        assert verdict in (None, SEEDS[kind].manifest["verdict"])
    assert ends["refused"] > 300


@pytest.mark.parametrize(
    ("kind", "name", "change", "message"),
    [
        ("MATCH", "captures.json", lambda d: d.pop("history"), "captures.json: history"),
        ("MATCH", "captures.json", lambda d: d["enumerations"].clear(), "1 matchings, but 0"),
        ("MATCH", "fragments.json", lambda d: d.clear(), "no matching"),
        ("MATCH", "fragments.json", lambda d: d[0]["rows"][0].update(key=3), "rows.0.key"),
        ("MATCH", "schema.json", lambda d: d["types"][0].update(key=["none"]), "the key names"),
        ("MATCH", "schema.json", lambda d: d["types"][0].update(name=["a"]), "types.0.name"),
        ("MATCH", "schema.json", lambda d: d["types"].pop(), "no type"),
        ("MATCH", "schema.json", lambda d: d["types"].append(d["types"][0]), "the same type"),
        ("MATCH", "schema.json", lambda d: d["types"][0]["key"].append(d["types"][0]["key"][0]),
         "the same field of the key"),
        ("MATCH", "schema.json",
         lambda d: d["types"][0]["fields"].append(d["types"][0]["fields"][0]), "the same field"),
        ("MATCH", "index.json", lambda d: d[0]["changed"].append(d[0]["changed"][0]), "twice"),
        ("MATCH", "index.json", lambda d: d[0]["touched"].append(["x", 1, []]), "no transaction"),
        ("MATCH", "answer.json", lambda d: d.pop("answer"), "answer.json"),
        ("MATCH", "answer.json", lambda d: d.update(answer=["float", "0x1p9999"]), "encoded value"),
        ("MATCH, calls", "trace.json", lambda d: d["actions"][0].update(tool=1), "0.tool"),
        ("MATCH, calls", "trace.json", lambda d: d["actions"][0].update(arguments=["null"]),
         "not the arguments"),
        ("MATCH, along", "captures.json", lambda d: d["history"]["lines"][0]["touched"].pop(),
         "transactions, but"),
        ("DIVERGE, matchings", "resolution.json", lambda d: d["ambiguous"].clear(),
         "nothing is ambiguous"),
    ],
)  # fmt: skip
def test_what_is_misshapen_is_named(kind: str, name: str, change: Any, message: str) -> None:
    document = SEEDS[kind].document(name)
    change(document)
    with pytest.raises(BundleError, match=message):
        replay(with_document(SEEDS[kind], name, document))


def test_a_row_that_is_of_another_key_is_refused() -> None:
    bundle = SEEDS["DIVERGE, along"]
    fragments = bundle.document("fragments.json")
    changed = bundle.document("index.json")[0]["changed"][0]
    row = next(
        row for row in fragments[0]["rows"]
        if [row["type"], row["key"]] == changed and row["fields"] and row["side"] == "after"
    )  # fmt: skip
    row["fields"] = [entry for entry in row["fields"] if entry[0] != "id"]
    with pytest.raises(BundleError, match="not the row that the state roots have"):
        replay(with_document(bundle, "fragments.json", fragments))


def test_a_bundle_without_one_of_its_files_is_refused() -> None:
    bundle = SEEDS["MATCH"]
    less = {name: data for name, data in bundle.files.items() if name != "trace.json"}
    with pytest.raises(BundleError, match=r"trace\.json: missing"):
        replay(Bundle(bundle.manifest, less))


@pytest.mark.parametrize(
    "error", [KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError]
)
@pytest.mark.parametrize(
    ("stage", "function"),
    [
        (trial_stage, "judge"), (judge_stage, "report_order"), (replaying, "admit"),
        (replaying, "compile_contract"), (replaying, "combine"),
    ],
)  # fmt: skip
def test_an_error_inside_judging_is_no_word_about_the_bundle(
    stage: Any, function: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise error("planted")

    monkeypatch.setattr(stage, function, broken)
    with pytest.raises(error, match="planted"):
        replay(SEEDS["DIVERGE"])


def test_a_number_that_no_float_can_hold_is_no_value() -> None:
    with pytest.raises(InputError, match="not an encoded value"):
        decode(["float", "0x1p9999"])


def test_every_seed_replays() -> None:
    for kind, bundle in SEEDS.items():
        assert replay(bundle).verdict.value == bundle.manifest["verdict"] == verdict_in(kind)
