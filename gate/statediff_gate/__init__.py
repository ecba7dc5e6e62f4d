"""A gate in front of databases: what an agent's transaction does is judged before it is committed.

`Gate` is the whole of it; docs/gate.md says what a gate sees, and what it does not. Each name is
imported when it is first used: a command line that only lists its commands opens no gate.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statediff.model.verdict import Decision
    from statediff_gate.gate import Gate
    from statediff_gate.holds import Approval, Hold
    from statediff_gate.participant import Answer, Outcome, Refused
else:
    _PLACES = {
        "Answer": "statediff_gate.participant",
        "Approval": "statediff_gate.holds",
        "Decision": "statediff.model.verdict",
        "Gate": "statediff_gate.gate",
        "Hold": "statediff_gate.holds",
        "Outcome": "statediff_gate.participant",
        "Refused": "statediff_gate.participant",
    }

    def __getattr__(name: str) -> Any:
        """The object that the API calls by the name."""
        if name in _PLACES:
            return getattr(import_module(_PLACES[name]), name)
        raise AttributeError(f"module 'statediff_gate' has no attribute {name!r}")


__all__ = ["Answer", "Approval", "Decision", "Gate", "Hold", "Outcome", "Refused"]
