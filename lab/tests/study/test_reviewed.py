"""Trials that reviewers labelled, judged from the states that their run kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from statediff_lab.labels import Label
from statediff_lab.study.cases import ReviewedTrial, reviewed_cases
from statediff_lab.study.evaluators import ABLATIONS, EVALUATORS

from statediff.errors import BundleError
from statediff.evidence.package import Bundle, load
from statediff.meta.reference import Reference, Rows
from statediff.model.verdict import Verdict
from statediff.workspace.references import whole_trial
from tests.meta.test_mutate import TIGHT, watched
from tests.meta.test_reference import documents, folder_of

ALL = {each.name for each in (*EVALUATORS, *ABLATIONS)}


def first_is_gone(rows: Rows) -> None:
    del rows[min(rows)]


def kept(run: Reference, folder: Path) -> tuple[Bundle, Path]:
    trial = folder_of(run, folder, documents(run)) / "trials" / "trial-1"
    return load(trial / "bundle"), trial


def reviewed(run: Reference, folder: Path, label: Label) -> ReviewedTrial:
    bundle, trial = kept(run, folder)
    found = whole_trial(trial, bundle)
    assert found is not None
    return ReviewedTrial(bundle, label, (), found)


def test_every_evaluator_and_ablation_judges_a_reviewed_trial(tmp_path: Path) -> None:
    right, wrong = watched(TIGHT), watched(TIGHT).edited({"user": first_is_gone})
    trials = [
        reviewed(right, tmp_path / "a", Label.CORRECT),
        reviewed(replace(right, name="again"), tmp_path / "b", Label.CORRECT),
        reviewed(wrong, tmp_path / "c", Label.INCORRECT),
    ]
    one, _, harm = reviewed_cases(trials)
    assert one.opinions.keys() == harm.opinions.keys() == ALL
    assert one.errors == harm.errors == {}
    said = {name: opinion.verdict for name, opinion in harm.opinions.items()}
    assert said["statediff"] is said["raw-equality"] is Verdict.DIVERGE
    assert said["final-text"] is said["assertions"] is said["without-frame"] is Verdict.MATCH
    assert harm.opinions["statediff"].entities == 1
    assert {o.verdict for o in one.opinions.values()} == {Verdict.MATCH}


def test_nothing_is_compared_with_itself(tmp_path: Path) -> None:
    [only] = reviewed_cases([reviewed(watched(TIGHT), tmp_path, Label.CORRECT)])
    assert only.errors.keys() == {"final-text", "raw-equality"}
    assert only.opinions.keys() == ALL - only.errors.keys()


def test_a_bundle_by_itself_has_only_what_its_clauses_say(tmp_path: Path) -> None:
    bundle, trial = kept(watched(TIGHT), tmp_path)
    (trial / "states.json").unlink()
    assert whole_trial(trial, bundle) is None
    [case] = reviewed_cases([ReviewedTrial(bundle, Label.CORRECT, (), None)])
    assert case.opinions.keys() < ALL


def test_states_of_another_trial_are_not_taken_for_those_of_the_bundle(tmp_path: Path) -> None:
    _, other = kept(watched(TIGHT).edited({"user": first_is_gone}), tmp_path / "other")
    bundle, _ = kept(watched(TIGHT), tmp_path / "own")
    with pytest.raises(BundleError, match="not those that the bundle judged"):
        whole_trial(other, bundle)
    (other / "states.json").write_bytes(b"{}\n")
    with pytest.raises(BundleError, match=r"states\.json"):
        whole_trial(other, bundle)
