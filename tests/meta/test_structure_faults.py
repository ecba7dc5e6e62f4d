"""The faults below the rows of live systems get DIVERGE, each by what it was done to."""

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from statediff.evaluate import load_contract
from statediff.meta.metatest import MetaCase, Part
from statediff.meta.structure_faults import BELOW, Damage, structure_cases
from statediff.packs import contract_folder
from statediff.suite.campaign import SandboxPool
from statediff.workspace.references import damaged_references, live_references


def cases(task: str, operators: list[str]) -> Iterator[MetaCase]:
    path = contract_folder(task).contract
    with closing(SandboxPool()) as pool:
        for operator in operators:
            damage = Damage(operator)
            trials = live_references(load_contract(path), path, ["careful"], pool, damage)
            yield from structure_cases((damage, trial) for trial in trials)


def of(*kinds: str) -> list[str]:
    return [name for name in BELOW if name.startswith(kinds)]


@pytest.mark.parametrize(
    ("task", "operators"),
    [
        ("shop/correct-address", of("structure")),
        ("shop/notify-once", of("mail")),
        ("accounts/offboard-user", of("files")),
        ("repo/tag-release", of("git")),
        ("helpdesk/close-case", of("tracker")),
    ],
    ids=["sqlite", "mail", "files", "git", "tracker"],
)
def test_every_fault_below_the_rows_diverges_by_what_it_was_done_to(
    task: str, operators: list[str]
) -> None:
    found = list(cases(task, operators))
    tried = [case for case in found if case.part is Part.FAULT]
    if os.geteuid() == 0:
        assert [case.kind for case in tried] == operators
    assert [(c.kind, c.verdict) for c in tried if not (c.is_right and c.is_named)] == []


def test_what_has_no_place_is_counted_as_untried() -> None:
    path = contract_folder("accounts/access-review").contract
    with closing(SandboxPool()) as pool, pytest.MonkeyPatch.context() as patch:
        for name in of("structure", "files", "tracker", "git:", "mail:part"):
            patch.delitem(BELOW, name)
        damaged = damaged_references(load_contract(path), path, ["careful"], pool)
        [case] = structure_cases(damaged)
    assert (case.part, case.sentence[:11]) == (Part.UNTRIED, "mail:header")
