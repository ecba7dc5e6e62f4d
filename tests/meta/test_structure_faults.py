"""The faults below the rows of live systems get DIVERGE, each by what it was done to."""

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from statediff.contract.file import load_contract
from statediff.meta.metatest import MetaCase, Part
from statediff.meta.structure_faults import Damage, faults_below, structure_cases
from statediff.packs import EMBEDDED, contract_folder
from statediff.suite.campaign import SandboxPool
from statediff.workspace.references import damaged_references, live_references


def cases(task: str, operators: list[str], variant: str = EMBEDDED) -> Iterator[MetaCase]:
    path = contract_folder(task).contract
    with closing(SandboxPool()) as pool:
        for operator in operators:
            damage = Damage(operator)
            file = load_contract(path)
            trials = live_references(file, path, ["careful"], pool, damage, variant)
            yield from structure_cases((damage, trial) for trial in trials)


def of(*kinds: str) -> list[str]:
    return [name for name in faults_below() if name.startswith(kinds)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "operators"),
    [
        ("shop/correct-address", of("structure")),
        ("shop/notify-once", of("mail")),
        ("accounts/offboard-user", of("files")),
        ("repo/tag-release", of("git:")),
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


@pytest.mark.docker
@pytest.mark.parametrize(
    ("task", "server", "kind"),
    [
        ("shop/correct-address", "postgres", "postgres"),
        ("shop/correct-address", "mariadb", "mariadb"),
        ("helpdesk/close-case", "redmine", "redmine"),
        ("repo/tag-release", "git", "git-http"),
    ],
)
def test_every_fault_below_the_rows_of_a_server_diverges_by_its_changes(
    task: str, server: str, kind: str
) -> None:
    operators = of(f"{kind}:")
    found = list(cases(task, operators, server))
    assert [case.kind for case in found if case.part is Part.FAULT] == operators
    assert [(c.kind, c.verdict) for c in found if not (c.is_right and c.is_named)] == []


def test_what_has_no_place_is_counted_as_untried() -> None:
    path = contract_folder("accounts/access-review").contract
    with closing(SandboxPool()) as pool, pytest.MonkeyPatch.context() as patch:
        for name in of("structure", "files", "tracker", "git:", "mail:part"):
            patch.delitem(faults_below(), name)
        damaged = damaged_references(load_contract(path), path, ["careful"], pool)
        [case] = structure_cases(damaged)
    assert (case.part, case.sentence[:11]) == (Part.UNTRIED, "mail:header")
