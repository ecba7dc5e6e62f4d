"""Verdicts that may stand in one count.

A contract's version and the kernel's are the evaluator: verdicts under different ones are not
comparable, so no report adds them up. Different contracts are different tasks of one evaluator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Judge:
    """The contract and kernel that decided a verdict; all of it empty where there is none."""

    contract: str = ""
    version: str = ""
    kernel: str = ""

    def __str__(self) -> str:
        return f"{self.contract} {self.version}, kernel {self.kernel}" if self.kernel else ""


def judge(manifest: Mapping[str, Any]) -> Judge:
    """The contract and kernel that decided the verdict of a bundle."""
    return Judge(*(str(manifest[name]) for name in ("contract", "contract_version", "kernel")))


def are_comparable(judges: Iterable[Judge]) -> bool:
    """True if verdicts by these may be counted together: one kernel, one version of a contract."""
    known = {each for each in judges if each != Judge()}
    kernels = {each.kernel for each in known}
    return len(kernels) <= 1 and len({each.contract for each in known}) == len(known)


INCOMPARABLE = "judged by different versions, so counted apart"
