"""`check`, `fmt`, `tasks` and `schema`: what an author needs before any agent is tried."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from statediff.cli.faults import USAGE, left_out
from statediff.cli.options import (
    ContractArguments,
    InstalledOnly,
    JsonFlag,
    SchemaFileOption,
    argument,
    flag,
    opt,
    option,
)
from statediff.cli.output import emit, emit_pretty, mark, note, print_result, say
from statediff.contract.authoring.formatting import format_contract
from statediff.contract.document.jsonschema import (
    contract_schema,
    sandbox_schema,
    state_schema_schema,
)
from statediff.contract.document.load import fixed, read_bytes
from statediff.contract.file import load_contract
from statediff.errors import UsageError
from statediff.evidence.disclosure.settings import settings_beside
from statediff.kernel import compile_contract, schema_of
from statediff.reports.formats.published import judgement_schema
from statediff.reports.plain import plain_problem
from statediff.reports.said import said
from statediff.workspace.contracts import (
    Checked,
    States,
    contract_path,
    contract_paths,
    is_released,
    listed_tasks,
)
from statediff.workspace.contracts import (
    check as checked_contract,
)
from statediff.workspace.folders import shown, write_file

CHECK = "statediff/check/1"
FMT = "statediff/fmt/1"
TASKS = "statediff/tasks/1"
EXPLAINED = "statediff/explanation/1"


def tasks(
    folders: Annotated[
        list[str] | None,
        argument("[FOLDER...]", "Folders of contracts [default: what statediff ships]."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """List tasks: their contracts, sandboxes and agents."""
    found = listed_tasks(folders or [])
    if as_json:
        emit({"schema": TASKS, "tasks": [task.as_json() for task in found]})
        return 0
    for task in found:
        head = Text(said(task.name), style="bold")
        where = f"  in {said(task.sandbox)}" if task.sandbox else ""
        say(head.append(f"  {said(task.version)}{where}", "not bold dim"))
        say(Text(f"  {said(task.intent)}"))
        if task.agents:
            say(Text(f"  agents: {said(', '.join(task.agents))}", style="dim"))
    return 0


class Format(StrEnum):
    """The forms of an explanation."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"


@dataclass(frozen=True, kw_only=True)
class Explaining:
    """The contract in English, as a person or a page reads it."""

    explain: bool = flag("Say in English, clause by clause, what it demands.")
    form: Format = opt(
        "text|markdown|html", "With --explain: the form.", "--format", default=Format.TEXT
    )
    out: Path | None = opt("FILE", "With --explain: write it there.")


def check(
    contracts: ContractArguments,
    schema: SchemaFileOption = None,
    before: Annotated[
        list[str] | None,
        option("[NAME=]STATE", "A state to check against; once a source.", "--before"),
    ] = None,
    *,
    english: Explaining,
    fix: Annotated[
        bool, option("", "First write keys under the names that they have now.", "--fix")
    ] = False,
    installed_only: InstalledOnly = False,
    as_json: JsonFlag = False,
) -> int:
    """Check contracts: what is invalid, and what lets through too much.

    Names and types are checked over a state: --before, or else the base state of the contract's
    sandbox. With --schema alone, nothing is looked up in a state. Ends with 2 if anything is an
    error, with 4 if a sandbox is not installed; the reference explains every code. --explain draws
    the boundary of one contract too, or of a bundle's.
    """
    states = States(schema, before or [])
    for path in contract_paths(contracts) if fix else ():
        data = read_bytes(path)
        if (new := fixed(data, str(path))) != data:
            write_file(path, new)
    if english.explain:
        return _explain(contracts, states, english, as_json=as_json)
    if english.out is not None or english.form is not Format.TEXT:
        raise UsageError("--format and --out are of --explain, which says it in English")
    checked = [checked_contract(path, states) for path in contract_paths(contracts)]
    is_left = left_out(states.missing, forgiven=installed_only)
    if as_json:
        emit(_document(checked))
    else:
        _print(checked)
    return is_left if all(entry.is_ok for entry in checked) else USAGE


_FAR = {
    "shape": "shape only; give --before NAME=STATE or --schema FILE to check names and types",
    "schema": "types and expressions; give --before NAME=STATE to check fields and values, and to "
    "judge the null run",
    "state": "names, types, expressions and the null run",
}
_STYLES = {"error": "red", "warning": "yellow", "advice": "cyan"}


def _print(checked: list[Checked]) -> None:
    for entry in checked:
        for problem in entry.problems:
            place = f"{shown(Path(problem.file))}:{problem.line}:{problem.column}"
            line = Text(f"{said(place)}: ")
            line.append(problem.severity, style=_STYLES[problem.severity])
            line.append(f" {problem.code}: {said(problem.message, 4000)}")
            say(line)
            if problem.hint:
                say(Text(f"    instead: {said(problem.hint, 4000)}"))
        if entry.is_ok:
            text = f"{said(shown(entry.file))}  {_FAR[entry.against]}"
            say(mark(text, is_good=True))
            if entry.of_calls:
                clauses = ", ".join(map(said, entry.of_calls))
                say(Text(f"    never decided where nobody records the agent's calls: {clauses}"))
    counts = _counts(checked)
    if any(counts.values()):
        bad = sum(bool(entry.problems) for entry in checked)
        parts = [_number(n, name) for name, n in counts.items() if n]
        note(f"{', '.join(parts)} in {bad} of {_number(len(checked), 'contract')}")


def _number(count: int, noun: str) -> str:
    plural = count != 1 and noun != "advice"
    return f"{count} {noun}{'s' if plural else ''}"


def _counts(checked: list[Checked]) -> dict[str, int]:
    found = [problem.severity for entry in checked for problem in entry.problems]
    return {severity: found.count(severity) for severity in _STYLES}


def _document(checked: list[Checked]) -> dict[str, Any]:
    counts = _counts(checked)
    return {
        "schema": CHECK,
        "contracts": [
            {
                "file": shown(entry.file),
                "contract": entry.contract or None,
                "checked": entry.against,
                "ok": entry.is_ok,
                "of_calls": list(entry.of_calls),
                "problems": [{**plain_problem(p), "severity": p.severity} for p in entry.problems],
            }
            for entry in checked
        ],
        "errors": counts["error"],
        "warnings": counts["warning"],
        "advice": counts["advice"],
    }


def fmt(
    contracts: ContractArguments,
    check: Annotated[
        bool, option("", "Write nothing; end with 2 if a file would change.", "--check")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Write contracts in their canonical form: order of keys, block style, quotes; comments stay.

    The parsed contract never changes. A file that does not parse is refused, a released version
    is left as it is.
    """
    done: list[dict[str, Any]] = []
    for path in contract_paths(contracts):
        file = load_contract(path)
        new = format_contract(file.data, str(path))
        state = "same" if new == file.data else "changed"
        if state == "changed" and is_released(path, file):
            state = "released"
        if state == "changed" and not check:
            write_file(path, new)
        done.append({"file": shown(path), "result": state})
    changed = sum(entry["result"] == "changed" for entry in done)
    words = {
        "changed": "would change" if check else "formatted",
        "same": "is formatted",
        "released": "is released and stays as it is",
    }
    text = "\n".join(f"{entry['file']}  {words[entry['result']]}" for entry in done)
    document = {"schema": FMT, "check": check, "files": done, "changed": changed}
    print_result(document, text, as_json=as_json)
    return USAGE if check and changed else 0


def _explain(named: Sequence[str], states: States, english: Explaining, *, as_json: bool) -> int:
    """The one contract in English; `UsageError` where it is not one, or its types are not known."""
    from statediff.contract.authoring.explain import explain
    from statediff.reports.contracts import RENDERERS, copies_section

    if len(named) != 1:
        raise UsageError(f"--explain takes one contract, found {len(named)}")
    path = contract_path(named[0])
    file = load_contract(path)
    over, base = states.of(file, path)
    if base is not None:
        over = schema_of(base)
    if over is None:
        raise UsageError(
            f"{file.source.file}: what its names mean is not known; give --before NAME=STATE, or "
            "--schema FILE"
        )
    words = explain(file.whole, compile_contract(file, over).contract)
    copies = copies_section(over, settings_beside(path))
    text = RENDERERS[english.form.value](replace(words, sections=(*words.sections, copies)))
    if english.out is not None:
        write_file(english.out, text.encode())
    if as_json:
        emit(
            {
                "schema": EXPLAINED,
                "contract": words.name,
                "version": words.version,
                "format": english.form.value,
                "text": text,
                "clauses": [
                    {"id": line.id, "sentence": line.sentence, "because": line.because or None}
                    for section in words.sections
                    for line in section.lines
                ],
                "copies": {line.id: line.sentence for line in copies.lines},
            }
        )
    elif english.out is None:
        sys.stdout.write(text)
    return 0


class Document(StrEnum):
    """The documents with a published schema."""

    CONTRACT = "contract"
    STATE = "state"
    SANDBOX = "sandbox"
    JUDGEMENT = "judgement"


def schema(
    document: Annotated[Document, typer.Argument(metavar="contract|state|sandbox|judgement")],
    as_json: Annotated[
        bool, option("", "One line instead of an indented document.", "--json")
    ] = False,
) -> int:
    """Print the JSON Schema of a contract, state schema file, sandbox or judgement."""
    schemas = {
        Document.CONTRACT: contract_schema,
        Document.STATE: state_schema_schema,
        Document.SANDBOX: sandbox_schema,
        Document.JUDGEMENT: judgement_schema,
    }
    (emit if as_json else emit_pretty)(schemas[document]())
    return 0
