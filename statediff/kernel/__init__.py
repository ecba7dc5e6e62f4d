"""The judging kernel behind its one door: from two captures and a contract to a judgement.

1. `policy.admission`: which readings may be used.
2. `resolve`: from captures to states, and every admissible pairing of entities.
3. `canonicalize`: ν over each pairing, row by row, raw values kept.
4. `diff`: deltas within Ω; `policy`: every clause, forbidden first, the frame, the required.
5. `statediff.evidence`: what the decision read, packed so that `replay` can decide it again.

Clocks, ids and seeds are arguments: the same inputs give the same bundle, byte for byte. What is
inside is imported by what is inside alone; a name of the door is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

_NAMES: Final = {
    "comparing": ("comparison", "state_of"),
    "contracts": ("Compiled", "compile_contract", "contract_in", "schema_of"),
    "foreseen": ("binding_error",),
    "judging_modules": ("modules_digest",),
    "libraries": ("context_of", "library_of"),
    "linting": ("changes_there_before", "lint"),
    "replaying": ("course_of", "replay", "require_kernel"),
    "trial": (
        "KERNEL", "Evaluated", "Prepared", "TrialFacts", "evaluate", "gates_now", "judgement_of",
        "prepare",
    ),
    "undoing": ("Undoing", "UndoingCall"),
}  # fmt: skip
"""The names of the door, by the module that has them."""
_PLACES: Final = {name: module for module, names in _NAMES.items() for name in names}
__all__ = list(_PLACES)

if TYPE_CHECKING:
    from statediff.kernel.comparing import comparison as comparison
    from statediff.kernel.comparing import state_of as state_of
    from statediff.kernel.contracts import Compiled as Compiled
    from statediff.kernel.contracts import compile_contract as compile_contract
    from statediff.kernel.contracts import contract_in as contract_in
    from statediff.kernel.contracts import schema_of as schema_of
    from statediff.kernel.foreseen import binding_error as binding_error
    from statediff.kernel.judging_modules import modules_digest as modules_digest
    from statediff.kernel.libraries import context_of as context_of
    from statediff.kernel.libraries import library_of as library_of
    from statediff.kernel.linting import changes_there_before as changes_there_before
    from statediff.kernel.linting import lint as lint
    from statediff.kernel.replaying import course_of as course_of
    from statediff.kernel.replaying import replay as replay
    from statediff.kernel.replaying import require_kernel as require_kernel
    from statediff.kernel.trial import KERNEL as KERNEL
    from statediff.kernel.trial import Evaluated as Evaluated
    from statediff.kernel.trial import Prepared as Prepared
    from statediff.kernel.trial import TrialFacts as TrialFacts
    from statediff.kernel.trial import evaluate as evaluate
    from statediff.kernel.trial import gates_now as gates_now
    from statediff.kernel.trial import judgement_of as judgement_of
    from statediff.kernel.trial import prepare as prepare
    from statediff.kernel.undoing import Undoing as Undoing
    from statediff.kernel.undoing import UndoingCall as UndoingCall
else:

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
        return globals().setdefault(name, found)
