"""A gate in front of databases: what an agent's transaction does is judged before it is committed.

`Gate` is the whole of it; docs/gate.md says what a gate sees, and what it does not.
"""

from __future__ import annotations

from statediff.model.verdict import Decision
from statediff_gate.gate import Gate
from statediff_gate.holds import Approval, Hold
from statediff_gate.outcome import Outcome
from statediff_gate.participant import Answer, Refused

__all__ = ["Answer", "Approval", "Decision", "Gate", "Hold", "Outcome", "Refused"]
