"""An owner is known again after its death, and nobody else is taken for it."""

import os
import subprocess
from dataclasses import replace

import pytest

from statediff.systems.base.owner import Owner

ME = Owner.current()


def test_a_label_reads_back_and_is_fit_for_a_file_name() -> None:
    assert Owner.parse(ME.label) == ME
    assert not set(ME.label) & set("/\\ .\n")


@pytest.mark.parametrize("label", ["", "1", "1-2-3", "1-2-3-", "x-2-3-b", "-1-2-3-b", "1-2--b"])
def test_what_is_no_label_names_nobody(label: str) -> None:
    assert Owner.parse(label) is None


def test_this_process_lives_and_one_that_ended_is_dead() -> None:
    assert not ME.is_dead()
    process = subprocess.Popen(["sleep", "60"])
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - read once
        started = int(file.read().rpartition(")")[2].split()[19])
    other = replace(ME, pid=process.pid, started=started)
    assert not other.is_dead()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert other.is_dead()  # a zombie: nobody has asked how it ended
    process.wait()
    assert other.is_dead()


def test_a_number_that_was_given_to_another_process_is_not_its_owner() -> None:
    assert replace(ME, started=ME.started - 1).is_dead()


def test_all_are_dead_after_the_machine_started_anew() -> None:
    assert replace(ME, boot="0" * 32).is_dead()


def test_of_another_namespace_nothing_is_known_so_nobody_is_called_dead() -> None:
    assert not replace(ME, namespace=ME.namespace + 1, started=1).is_dead()
