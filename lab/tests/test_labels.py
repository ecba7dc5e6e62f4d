"""Labels are signed, kept apart from verdicts, and settled only by naming what is settled."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from statediff_lab.labels import (
    Cause,
    Component,
    Label,
    Labelled,
    Review,
    SettledTrial,
    against,
    cohen,
    fleiss,
    keep_signed,
    labels_in,
    looks_in,
    own_label,
    pairs,
    rates,
    read_signed,
    settled_label,
    sign_label,
    sign_resolution,
)
from statediff_lab.samples import counterbalanced, sample_bundles

from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence.keys import SigningKey
from statediff.evidence.statements import open_statement
from statediff.evidence.verify import Signer

ADA, BO, EVE = (
    SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(n, n + 32)))) for n in (0, 1, 2)
)
TRUST = (
    Signer("Ada", ADA.public, ("reviewer",), None, None),
    Signer("Bo", BO.public, ("reviewer",), None, None),
)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RIGHT = Review(Label.CORRECT, 40, blind=True)
WRONG = Review(Label.INCORRECT, 90, blind=False, cause=Cause.AGENT, note="it deleted a customer")
BLIND_SPOT = Review(
    Label.INCORRECT,
    5,
    False,
    cause=Cause.EVALUATOR,
    stage=Component.CANONICALIZE,
    is_correctable=True,
)


def label(of: Review, key: SigningKey = ADA, bundle: str = "b", at: datetime = NOON) -> bytes:
    return sign_label(bundle, of, at, key)


@pytest.mark.parametrize("what", [RIGHT, WRONG, BLIND_SPOT])
def test_a_label_says_what_was_given_and_by_whom(what: Review) -> None:
    found = read_signed(label(what) + b"\n", TRUST)
    assert isinstance(found, Labelled)
    assert (found.given, found.reviewer, found.bundle, found.at) == (what, "Ada", "b", NOON)


def test_the_bytes_of_a_label_are_those_of_every_version_so_far() -> None:
    assert hashlib.sha256(label(WRONG)).hexdigest() == (
        "e843ab6c7ddd19c51e120048df1b0a72746a8f1e20368e38f74d71cf5ddb9cdb"
    )


def test_a_label_is_no_statement_of_another_sort_whoever_trusts_its_key() -> None:
    trust = (Signer("Ada", ADA.public, ("reviewer", "evaluator"), None, None),)
    assert open_statement(label(RIGHT), "label", "evaluator", trust)[2] == "Ada"
    for other in ("checkpoint", "expiry", "labels"):
        with pytest.raises(BundleError, match="the signature of Ada does not fit"):
            open_statement(label(RIGHT), other, "evaluator", trust)


@given(st.integers(0), st.integers(1, 255))
def test_no_changed_byte_of_a_label_is_accepted(place: int, bits: int) -> None:
    data = bytearray(label(WRONG))
    data[place % len(data)] ^= bits
    with pytest.raises(BundleError):
        read_signed(bytes(data), TRUST)


def test_only_a_reviewer_trusted_at_that_time_counts() -> None:
    for trust in (
        (),
        (Signer("Ada", ADA.public, ("evaluator",), None, None),),
        (Signer("Ada", ADA.public, ("reviewer",), NOON + timedelta(1), None),),
        (Signer("Ada", ADA.public, ("reviewer",), None, NOON),),
        (Signer("Ada", EVE.public, ("reviewer",), None, None),),
    ):
        with pytest.raises(BundleError):
            read_signed(label(RIGHT), trust)


@pytest.mark.parametrize(
    "what",
    [
        replace(WRONG, stage=Component.DIFF), replace(RIGHT, is_correctable=True),
        replace(RIGHT, note="x" * 4001), replace(RIGHT, seconds=-1),
    ],
)  # fmt: skip
def test_a_label_that_cannot_stand_is_not_signed(what: Review) -> None:
    with pytest.raises(UsageError):
        label(what)


def test_the_newest_label_of_a_reviewer_counts_and_others_stay_on_record(tmp_path: Path) -> None:
    keep_signed(tmp_path, label(WRONG))
    keep_signed(tmp_path, label(RIGHT, at=NOON + timedelta(hours=1)))
    keep_signed(tmp_path, label(WRONG, BO))
    keep_signed(tmp_path, label(WRONG, BO, bundle="another"))
    with pytest.raises(StorageError):
        keep_signed(tmp_path, label(WRONG, BO))
    labels, resolutions = labels_in(tmp_path, "b", TRUST)
    assert [(each.reviewer, each.given.label) for each in labels] == [
        ("Ada", Label.CORRECT),
        ("Bo", Label.INCORRECT),
    ]
    assert resolutions == ()
    assert len(list((tmp_path / "labels").iterdir())) == 4


def test_labels_that_disagree_are_unresolvable_until_a_resolution_names_them(
    tmp_path: Path,
) -> None:
    keep_signed(tmp_path, label(RIGHT))
    labels, _ = labels_in(tmp_path, "b", TRUST)
    assert settled_label(labels, ()) is Label.CORRECT
    keep_signed(tmp_path, label(WRONG, BO))
    labels, _ = labels_in(tmp_path, "b", TRUST)
    assert settled_label(labels, ()) is Label.UNRESOLVABLE
    keep_signed(tmp_path, sign_resolution(labels, Label.INCORRECT, "we looked again", NOON, ADA))
    labels, resolutions = labels_in(tmp_path, "b", TRUST)
    assert settled_label(labels, resolutions) is Label.INCORRECT
    # A label given after the resolution is not settled by it.
    keep_signed(tmp_path, label(replace(RIGHT, seconds=1), BO, at=NOON + timedelta(1)))
    labels, resolutions = labels_in(tmp_path, "b", TRUST)
    assert settled_label(labels, resolutions) is Label.CORRECT
    keep_signed(tmp_path, label(replace(WRONG, seconds=2), BO, at=NOON + timedelta(2)))
    labels, resolutions = labels_in(tmp_path, "b", TRUST)
    assert settled_label(labels, resolutions) is Label.UNRESOLVABLE
    assert settled_label((), resolutions) is None


def test_a_resolution_needs_labels_of_one_bundle_and_a_reason(tmp_path: Path) -> None:
    keep_signed(tmp_path, label(RIGHT))
    labels, _ = labels_in(tmp_path, "b", TRUST)
    for some, because in (((), "why"), (labels, " ")):
        with pytest.raises(UsageError):
            sign_resolution(some, Label.CORRECT, because, NOON, ADA)


def test_a_file_that_is_no_label_is_named(tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "x.json").write_text("{}")
    with pytest.raises(BundleError, match=r"x\.json"):
        labels_in(tmp_path, "b", TRUST)


# Agreement: worked by hand, and by the formulas' own limits.

C, W, U = Label.CORRECT, Label.INCORRECT, Label.UNRESOLVABLE


def test_cohens_kappa_of_a_worked_example() -> None:
    # 20 both correct, 15 both incorrect, 5 and 10 apart: observed .7, chance .5, kappa .4.
    both = [(C, C)] * 20 + [(C, W)] * 5 + [(W, C)] * 10 + [(W, W)] * 15
    assert cohen(both) == Fraction(2, 5)
    assert cohen([(C, C), (W, W)]) == 1
    assert cohen([(C, C)]) is None
    assert cohen([]) is None


def test_fleiss_kappa_of_a_worked_example() -> None:
    # Three reviewers, four trials: P = (1 + 1/3 + 1 + 1/3)/4 = 2/3, shares 7/12 and 5/12.
    votes = [
        {"a": C, "b": C, "c": C}, {"a": C, "b": C, "c": W}, {"a": W, "b": W, "c": W},
        {"a": C, "b": C, "c": W},
    ]  # fmt: skip
    chance = Fraction(49 + 25, 144)
    assert fleiss(votes) == (4, (Fraction(2, 3) - chance) / (1 - chance))
    assert fleiss([*votes, {"a": C}])[0] == 4
    assert fleiss([{"a": C}]) == (0, None)
    assert fleiss([]) == (0, None)


@given(st.lists(st.tuples(st.sampled_from(Label), st.sampled_from(Label)), min_size=1))
def test_kappa_is_one_exactly_where_all_agree_and_never_more(
    both: list[tuple[Label, Label]],
) -> None:
    found = cohen(both)
    assert found is None or found <= 1
    assert found is None or (found == 1) == all(a is b for a, b in both)
    assert found == cohen([(b, a) for a, b in both])


def test_pairs_are_over_what_both_labelled() -> None:
    votes = [{"a": C, "b": C}, {"a": C, "b": W}, {"a": W, "b": W}, {"a": W}, {"b": C, "c": C}]
    found = {(p.one, p.other): (p.trials, p.agree) for p in pairs(votes)}
    assert found == {("a", "b"): (3, 2), ("b", "c"): (1, 1)}


def test_verdicts_against_labels_keep_what_is_not_decided_apart() -> None:
    found = against([
        ("MATCH", C), ("MATCH", W), ("DIVERGE", W), ("DIVERGE", C), ("DIVERGE", W),
        ("INCONCLUSIVE", C), ("MATCH", U),
    ])  # fmt: skip
    assert (found.trials, found.agree) == (7, 3)
    assert (found.false_acceptances, found.false_rejections) == (1, 1)
    assert (found.inconclusive, found.unresolvable) == (1, 1)


def judged(contract: str, *ends: tuple[str, Label], kernel: str = "4") -> list[SettledTrial]:
    return [
        SettledTrial(
            trial=str(n),
            contract=contract,
            version="1.0.0",
            digest="d",
            kernel=kernel,
            verdict=verdict,
            label=label,
            bundle=f"b{n}",
        )
        for n, (verdict, label) in enumerate(ends)
    ]


def test_error_rates_are_by_domain_and_kernel_over_what_is_decided() -> None:
    shop = judged(
        "shop/a", ("MATCH", C), ("MATCH", W), ("DIVERGE", C), ("DIVERGE", C), ("DIVERGE", W),
        ("INCONCLUSIVE", W), ("MATCH", U),
    )  # fmt: skip
    more = judged("shop/b", ("MATCH", C), kernel="5") + judged("repo/c", ("DIVERGE", C))
    repo, old, new = rates([*shop, *more])
    assert [(r.domain, r.kernel) for r in (repo, old, new)] == [
        ("repo", "4"), ("shop", "4"), ("shop", "5"),
    ]  # fmt: skip
    assert old.decided == 5
    found = [(s.hits, s.total) for s in (old.error, old.false_negatives, old.false_positives) if s]
    assert found == [(3, 5), (2, 3), (1, 2)]
    assert old.error is not None
    assert old.error.low < Fraction(3, 5) < old.error.high
    assert new.false_positives is not None
    assert (new.false_positives.total, new.false_positives.high) == (0, 1)
    assert [e.disagreement for e in shop] == [
        None, "false-positive", "false-negative", "false-negative", None, None, None,
    ]  # fmt: skip


def test_two_versions_of_a_contract_have_no_common_rate() -> None:
    one = judged("shop/a", ("MATCH", W))
    (found,) = rates([*one, replace(one[0], version="2.0.0")])
    assert (found.decided, found.error, found.false_positives) == (2, None, None)
    (found,) = rates([*one, replace(one[0], digest="e")])
    assert found.error is None


@given(
    st.dictionaries(st.text(max_size=6), st.sampled_from(["MATCH", "DIVERGE", "INCONCLUSIVE"])),
    st.integers(1, 20),
    st.integers(),
)
def test_a_sample_is_stratified_and_does_not_hang_on_the_order(
    bundles: dict[str, str], size: int, seed: int
) -> None:
    drawn = sample_bundles(bundles, size, seed)
    assert len(set(drawn)) == len(drawn) == min(size, len(bundles))
    assert drawn == sample_bundles(dict(reversed(list(bundles.items()))), size, seed)
    strata = set(bundles.values())
    if size >= len(strata):
        assert {bundles[digest] for digest in drawn} == strata or len(drawn) < len(strata)


def test_another_seed_draws_others() -> None:
    bundles = {str(n): "MATCH" if n % 3 else "DIVERGE" for n in range(100)}
    assert sample_bundles(bundles, 9, 1) != sample_bundles(bundles, 9, 2)
    verdicts = [bundles[digest] for digest in sample_bundles(bundles, 9, 1)]
    assert verdicts.count("DIVERGE") == 3


# ---------------------------------------------------------------- one evaluator's view alone

VIEWS = ("a", "b", "c", "d")


@given(st.integers(0, 30))
def test_every_trial_is_seen_through_every_evaluator_and_none_is_favored(size: int) -> None:
    trials = [str(number) for number in range(size)]
    seen = [counterbalanced(trials, VIEWS, reviewer) for reviewer in range(len(VIEWS))]
    for trial in trials:
        assert {each[trial] for each in seen} == set(VIEWS)
    for each in seen:
        counts = [list(each.values()).count(view) for view in VIEWS]
        assert max(counts) - min(counts) <= 1


def test_every_evaluator_follows_every_other_equally_often() -> None:
    rows = [list(counterbalanced("1234", VIEWS, reviewer).values()) for reviewer in range(4)]
    follows = [pair for row in rows for pair in itertools.pairwise(row)]
    assert len(set(follows)) == len(follows) == 12


def test_a_look_through_one_evaluator_settles_nothing_and_the_first_counts(tmp_path: Path) -> None:
    first = replace(RIGHT, shown="final-text")
    later = replace(WRONG, shown="statediff")
    keep_signed(tmp_path, label(later, at=NOON + timedelta(hours=1)))
    keep_signed(tmp_path, label(first))
    assert labels_in(tmp_path, "b", TRUST) == ((), ())
    assert own_label(tmp_path, "b", ADA.public) is None
    [look] = looks_in(tmp_path, "b", TRUST)
    assert look.given == first
    with pytest.raises(UsageError, match="a name"):
        label(replace(first, shown=""))
