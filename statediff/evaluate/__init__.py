"""The pipeline, and its replay.

1. `admission`: which readings may be used.
2. `resolve`: from captures to states, and every admissible pairing of entities.
3. `canonicalize`: ν over each pairing, row by row, raw values kept.
4. `diff`: deltas within Ω; `policy`: every clause, forbidden first, the frame, the required.
5. `evidence`: what the decision read, packed so that `replay` can decide it again.

The only package that names all five stages. Clocks, ids and seeds are arguments: the same inputs
give the same bundle, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable

from statediff.evaluate.contracts import (
    Compiled,
    ContractFile,
    compile_contract,
    contract_in,
    load_contract,
    parse_contract,
    schema_of,
)
from statediff.evaluate.prepared import Prepared, prepare
from statediff.evaluate.replaying import replay
from statediff.evaluate.trial import (
    KERNEL,
    Evaluated,
    TrialFacts,
    check_null_run,
    evaluate,
    gates_now,
    judgement_of,
)
from statediff.model.verdict import Judgement, Truth, Verdict

__all__ = [
    "KERNEL",
    "Compiled",
    "ContractFile",
    "Evaluated",
    "Prepared",
    "TrialFacts",
    "check_null_run",
    "compile_contract",
    "contract_in",
    "evaluate",
    "exit_code",
    "failed",
    "gates_now",
    "judgement_of",
    "load_contract",
    "parse_contract",
    "prepare",
    "replay",
    "schema_of",
]


def exit_code(verdicts: Iterable[Verdict], *, has_fault: bool = False) -> int:
    """0 all MATCH, 1 any DIVERGE, 3 INCONCLUSIVE and no DIVERGE (docs/design.md §11).

    4 where something was not judged at all (`has_fault`) and no other run diverged.
    """
    found = set(verdicts)
    if Verdict.DIVERGE in found:
        return 1
    if has_fault:
        return 4
    return 3 if Verdict.INCONCLUSIVE in found else 0


def failed(judgement: Judgement) -> tuple[str, ...]:
    """The clauses that do not hold, in report order."""
    return tuple(c.clause for c in judgement.clauses if c.truth is not Truth.HOLDS)
