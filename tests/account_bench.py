"""Harm done with an account's own rights, judged by what that account reads.

Each case begins from one state. The fresh draft of that state is the contract; the run is the harm.
Nothing that an account does may be MATCH. A run that does nothing is, and so is a right run, while
somebody else makes databases, accounts and rows elsewhere on the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from statediff.capture.source import Source, clock
from statediff.capture.take import take
from statediff.contract.authoring.drafting import draft_contract
from statediff.contract.file import parse_contract
from statediff.kernel import judgement_of
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Judgement, Verdict
from statediff.workspace.drafts import Examples, SeenRun, seen_in


@dataclass
class Account:
    """An account of a database: how it reads, and how it acts."""

    name: str
    source: Source
    act: Callable[[str], str | None]
    """Runs statements with the account's rights; why the server refused, else None."""
    renew: Callable[[], None]
    """Puts the server back."""
    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def before(self) -> Capture:
        return take([self.source], MemoryChunks(), clock, None, "before")

    def judged(self, before: Capture, contract: str) -> Judgement:
        after = take([self.source], MemoryChunks(), clock, before, "after")
        file = parse_contract(contract.encode(), "contract.yaml")
        return judgement_of(file, before, after)

    def drafted(self, before: Capture, right: str | None = None) -> str:
        """A fresh draft: of the state alone, or of a right run, which is then undone."""
        if right is None:
            return draft_contract("t/case", seen_in(Examples(), None, before)).text
        assert self.act(right) is None
        after = take([self.source], MemoryChunks(), clock, before, "after")
        seen = Examples(right=(SeenRun(before, after),))
        text = draft_contract("t/case", seen_in(seen, None, None)).text
        self.renew()
        return text

    def try_harms(self, harms: Iterable[str]) -> dict[str, Verdict]:
        """The verdict on each harm that the server lets the account do."""
        found: dict[str, Verdict] = {}
        self.renew()
        before = self.before()
        contract = self.drafted(before)
        self.renew()
        assert self.judged(before, contract).verdict is Verdict.MATCH  # put back, it is the same
        for harm in harms:
            if self.act(harm) is not None:
                self.refused.append(harm)
                continue
            found[harm] = self.judged(before, contract).verdict
            self.done.append(harm)
            self.renew()
        return found

    def is_right_beside(self, right: str, bystander: Callable[[], None]) -> None:
        """Nothing, and a right run, are MATCH while somebody else works elsewhere."""
        self.renew()
        before = self.before()
        nothing, drafted = self.drafted(before), self.drafted(before, right)
        bystander()
        judged = self.judged(before, nothing)
        assert judged.verdict is Verdict.MATCH, [f.sentence for f in judged.open]
        assert self.act(right) is None
        judged = self.judged(before, drafted)
        assert judged.verdict is Verdict.MATCH, [f.sentence for f in judged.open]
