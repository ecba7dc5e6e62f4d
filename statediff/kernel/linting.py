"""One contract checked as far as what is at hand allows: document, schema, base state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from statediff.contract.file import ContractFile
from statediff.contract.lint import (
    Subject,
    already_there,
    in_order,
    lint_contract,
    malformed,
    wording,
)
from statediff.errors import ContractError, Problem
from statediff.kernel.contracts import Compiled, compile_contract, schema_of
from statediff.kernel.trial import check_null_run
from statediff.model.codes import FindingCode
from statediff.model.readings import Capture
from statediff.model.schema import Schema
from statediff.model.timelines import Resolution
from statediff.model.verdict import Judgement, Truth
from statediff.model.view import StateView

NO_HISTORY: frozenset[str] = frozenset()


def lint(
    file: ContractFile,
    schema: Schema | None = None,
    base: Capture | None = None,
    histories: frozenset[str] = NO_HISTORY,
    tools: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[Problem, ...]:
    """Every problem and remark. With a base state the null run is judged and clauses looked up.

    `histories` names the sources that deliver what happened during a run, `tools` has the JSON
    Schema of the arguments of each tool that the sandbox offers.
    """
    over = schema if base is None else schema_of(base)
    if over is None:
        return in_order((*malformed(file.source), *wording(file.source)))
    try:
        compiled = compile_contract(file, over)
    except ContractError as error:
        return in_order((*error.problems, *wording(file.source)))
    if base is None:
        return lint_contract(
            Subject(file.whole, compiled.contract, histories=histories, tools=tools)
        )
    invalid: tuple[Problem, ...] = ()
    null: Mapping[str, Truth] = {}
    resolution = compiled.resolve(base, base)
    try:
        judged = check_null_run(file, compiled, resolution)
        null = {clause.clause: clause.truth for clause in judged.clauses}
    except ContractError as error:
        invalid = error.problems
    subject = replace(
        _over(file, compiled, resolution), null=null, histories=histories, tools=tools
    )
    return in_order((*invalid, *lint_contract(subject)))


def changes_there_before(
    file: ContractFile, before: Capture, judgement: Judgement
) -> dict[str, str]:
    """Required changes that did not happen and were there before the run: clause → its entities.

    What a run asked for and another had done is no fault that the near misses of this one show.
    """
    missing = {f.clause for f in judgement.findings if f.code is FindingCode.MISSING_CHANGE}
    if not missing:
        return {}
    try:
        compiled = compile_contract(file, schema_of(before))
    except ContractError:
        return {}  # it speaks of types that only a run makes
    subject = _over(file, compiled, compiled.resolve(before, before))
    asked = (clause for clause in subject.patterns() if clause.id in missing)
    return {clause.id: there for clause in asked if (there := already_there(subject, clause))}


def _over(file: ContractFile, compiled: Compiled, resolution: Resolution) -> Subject:
    """The contract over the base state."""
    state = resolution.matchings[0].before
    view = StateView(state, compiled.scoped)
    return Subject(file.whole, compiled.contract, view)
