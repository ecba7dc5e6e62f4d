"""Who made a change: the calls of the run whose recorded effects are that change.

Nothing is inferred from what a tool is called or from when it was called. A change is somebody's
only if every call of the log says what it changed, the log is complete and the agent could not have
forged it, and all calls that touched it were made by one principal. Otherwise it is unattributed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from statediff.contract.syntax import CALL_TYPE, Read
from statediff.contract.world import FALSE, TRUE
from statediff.model.delta import Delta, delta_id
from statediff.model.trace import Trace

UNATTRIBUTED: Final = "attribution: no history says who made the change"
READS: Final = frozenset(
    {Read("trace", CALL_TYPE, "effects"), Read("trace", CALL_TYPE, "principal")}
)
"""What a clause with `by` reads of the log."""


@dataclass(frozen=True)
class Attribution:
    """Who touched what: the id of a delta → the principals of the calls that touched it."""

    touched: Mapping[str, frozenset[str | None]] | None = None
    """None where the log does not tell."""

    def by(self, delta: Delta, principal: str) -> tuple[int, str]:
        """Whether the principal made the change: TRUE, FALSE, or both with the reason."""
        if self.touched is None:
            return TRUE | FALSE, UNATTRIBUTED
        whole = delta_id(delta.type, delta.key, "")
        field = delta_id(delta.type, delta.key, delta.path)
        who = self.touched.get(field, frozenset()) | self.touched.get(whole, frozenset())
        if who == {principal}:
            return TRUE, ""
        if who and None not in who and principal not in who:
            return FALSE, ""
        if not who:
            return TRUE | FALSE, f"attribution: no call says that it changed {field}"
        names = ", ".join(sorted(name or "somebody unknown" for name in who))
        return TRUE | FALSE, f"attribution: {field} was changed by {names}"


NOBODY: Final = Attribution()


def attribution(trace: Trace) -> Attribution:
    """What the log says of who changed what."""
    if trace.gap is not None or any(action.effects is None for action in trace.actions):
        return NOBODY
    touched: dict[str, frozenset[str | None]] = {}
    for action in trace.actions:
        for effect in action.effects or ():
            touched[effect] = touched.get(effect, frozenset()) | {action.principal}
    return Attribution(touched)
