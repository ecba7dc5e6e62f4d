"""Labels of passes: who gave them, what is settled, and how far two passes agree."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_lab.labels import Label
from statediff_lab.study.passes import (
    GivenLabel,
    LabelFile,
    Labeller,
    Part,
    agreements,
    labelling,
    read_labels,
)

from lab.tests.study.test_planning import registration
from statediff.errors import InputError

RIGHT, WRONG, UNSEEN = Label.CORRECT, Label.INCORRECT, Label.UNRESOLVABLE
FOUND = registration()
RUNS = [(each.domain, each.run) for each in FOUND.sample]


def given_by(name: str, *labels: Label, part: Part = Part.PASS) -> LabelFile:
    """Labels of the first runs of the sample."""
    return LabelFile(
        registration=FOUND.digest,
        name=name,
        part=part,
        by=Labeller.MODEL,
        version="unknown",
        saw="the packet",
        labels=tuple(
            GivenLabel(domain=domain, run=run, label=label, kind="none", reason="so it is")
            for (domain, run), label in zip(RUNS, labels, strict=False)
        ),
    )


def test_what_both_say_is_settled_and_what_nobody_settles_is_unresolvable() -> None:
    one, other = given_by("A", RIGHT, WRONG, RIGHT, RIGHT), given_by("B", RIGHT, WRONG, WRONG)
    open_ones = labelling(FOUND, [one, other])
    assert [open_ones.settled[run] for run in RUNS[:4]] == [RIGHT, WRONG, UNSEEN, UNSEEN]
    assert open_ones.missing == len(RUNS) - 4
    third = replace(
        given_by("C", part=Part.SETTLING), labels=(replace(one.labels[2], label=WRONG),)
    )
    closed = labelling(FOUND, [third, other, one])
    assert [closed.settled[run] for run in RUNS[:4]] == [RIGHT, WRONG, WRONG, UNSEEN]
    assert [each.open for each in agreements(open_ones, 0, 50)] == [2, 0]
    assert [each.open for each in agreements(closed, 0, 50)] == [1, 0]


def test_agreement_and_kappa_are_by_domain_and_no_number_is_over_both() -> None:
    # Nine runs of each domain: by the book, 1/3 agreement beyond chance in the first.
    first = [RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, WRONG, WRONG, WRONG]
    second = [RIGHT, RIGHT, RIGHT, RIGHT, RIGHT, WRONG, WRONG, RIGHT, RIGHT]
    one, other = given_by("A", *first, *[RIGHT] * 9), given_by("B", *second, *[RIGHT] * 9)
    d, e = agreements(labelling(FOUND, [one, other]), 0, 500)
    assert (d.runs, d.agree, e.agree) == (9, 6, 9)
    assert d.kappa == pytest.approx((6 / 9 - (6 * 7 + 3 * 2) / 81) / (1 - (6 * 7 + 3 * 2) / 81))
    assert e.kappa is None is e.kappa_interval
    assert d.kappa_interval is not None
    assert d.kappa_interval.low <= d.kappa <= d.kappa_interval.high
    assert d.labels == {
        "A": {"correct": 6, "incorrect": 3}, "B": {"correct": 7, "incorrect": 2},
    }  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(Label), st.sampled_from(Label)), max_size=18))
def test_passes_in_another_order_settle_and_agree_alike(pairs: list[tuple[Label, Label]]) -> None:
    one = given_by("A", *(a for a, _ in pairs))
    other = given_by("B", *(b for _, b in pairs))
    found, turned = labelling(FOUND, [one, other]), labelling(FOUND, [other, one])
    assert found.settled == turned.settled
    for a, b in zip(agreements(found, 0, 20), agreements(turned, 0, 20), strict=True):
        assert (a.agree, a.kappa, a.settled) == (b.agree, b.kappa, b.settled)
        assert a.agree <= a.runs


ONE, OTHER = given_by("A", RIGHT), given_by("B", RIGHT)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([ONE], "two passes"),
        ([ONE, OTHER, given_by("C", RIGHT)], "two passes"),
        ([ONE, replace(OTHER, name="A")], "one name"),
        ([ONE, replace(OTHER, registration="0" * 64)], "another registration"),
        ([ONE, replace(OTHER, labels=(replace(ONE.labels[0], run="x"),))], "not drawn"),
        ([ONE, OTHER, given_by("C", WRONG, part=Part.SETTLING)], "on which the passes agree"),
    ],
)
def test_files_that_do_not_go_together_are_refused(files: list[LabelFile], why: str) -> None:
    with pytest.raises(InputError, match=why):
        labelling(FOUND, files)


def test_labels_are_read_as_written_and_times_are_a_persons_alone() -> None:
    timed = replace(ONE, labels=(replace(ONE.labels[0], seconds=30),))
    person = replace(timed, by=Labeller.PERSON, version="Ada")
    assert read_labels(person.written()) == person
    assert read_labels(ONE.written()) == ONE
    wrong = {
        "only of a person": timed.written(),
        "canonical": ONE.written()[:-1] + b" \n",
        "two labels": replace(ONE, labels=ONE.labels * 2).written(),
        "a reason": replace(ONE, labels=(replace(ONE.labels[0], reason=" "),)).written(),
        "the whole|registration": b"{}\n",
        "label": ONE.written().replace(b'"label":"correct"', b'"label":"perhaps"'),
    }
    for why, data in wrong.items():
        with pytest.raises(InputError, match=why):
            read_labels(data)
