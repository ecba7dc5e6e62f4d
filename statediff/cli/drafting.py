"""`init`: a first state schema and a first contract, drafted from a system that is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.output import JsonFlag

if TYPE_CHECKING:
    from statediff.contract.authoring.drafting import Seen
    from statediff.model.readings import Capture

INIT = "statediff/init/1"
SCHEMA_FILE, CONTRACT_FILE = "schema.yaml", "contract.yaml"


def init(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]STATE... | SANDBOX",
            help="Databases, JSON tables or repositories; or the name of a sandbox.",
        ),
    ],
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="[NAME=]STATE",
            help="The same after a run that did it right: what changed is then required.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The contract's name.")
    ] = "drafts/first",
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the two files are written.")
    ] = Path(),
    as_json: JsonFlag = False,
) -> int:
    """Draft a state schema and a contract, marked `reviewed: false`, for a person to finish.

    Nothing gates on the draft: `run` refuses it until somebody has removed that line.
    """
    from statediff.cli.output import emit, results, shown
    from statediff.contract.authoring.drafting import draft_contract, draft_schema
    from statediff.packs import sandbox_names
    from statediff.workspace import folders

    folders.require_writable(out)
    sandbox = sources[0] if len(sources) == 1 and sources[0] in sandbox_names() else None
    target = out / CONTRACT_FILE
    files: dict[str, str] = {}
    if sandbox is not None:
        seen = _of_sandbox(sandbox, after)
    else:
        schema_text = draft_schema(name.rpartition("/")[2], _states(sources))
        files[SCHEMA_FILE] = schema_text
        seen = _of_states(sources, after, schema_text)
    files[CONTRACT_FILE] = draft_contract(name, seen)
    require_free(out, files)
    out.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        folders.write_file(out / file, text.encode())
    facts: dict[str, Any] = {
        "schema": INIT,
        "contract": name,
        "files": [shown(out / file) for file in sorted(files)],
        "entity_types": len(seen.schema.types),
        "changes": len(seen.deltas),
    }
    if as_json:
        emit(facts)
    else:
        for file in facts["files"]:
            results().print(f"wrote {file}", soft_wrap=True)
        results().print(
            f"next: read {shown(target)}, say what must change, then "
            f"`statediff lint {shown(target)}`; remove `reviewed: false` when it is right",
            soft_wrap=True,
        )
    return 0


def require_free(out: Path, files: dict[str, str]) -> None:
    """None of the files is there yet; `UsageError` names one that is."""
    from statediff.errors import UsageError
    from statediff.model.values import printable

    for file in sorted(files):
        if (out / file).exists():
            raise UsageError(
                f"{printable(str(out / file))}: exists already and nothing is overwritten; "
                "choose another folder with --out"
            )


def _states(sources: list[str]) -> list[tuple[str, Any]]:
    from statediff.workspace.inputs import one_capture

    capture = one_capture(sources, lambda _source: None)
    return [(part.reading.source, part.state) for part in capture.parts]


def _of_states(sources: list[str], after: list[str] | None, schema_text: str) -> Seen:
    """What the files hold, under the names that the drafted schema gives."""
    from statediff.contract.document.refinement import refine
    from statediff.contract.document.schemafile import parse_schema_file
    from statediff.workspace.inputs import capture_pair, one_capture

    file = None
    if not schema_text.rstrip().endswith("entities: {}"):
        file = parse_schema_file(schema_text.encode(), SCHEMA_FILE)

    def refined(source: str) -> Any:
        return None if file is None else refine(file, source)

    if after:
        return what_was_seen(*capture_pair(sources, after, refined), None)
    return what_was_seen(one_capture(sources, refined), None, None)


def _of_sandbox(sandbox: str, after: list[str] | None) -> Seen:
    from statediff.errors import UsageError
    from statediff.workspace.trials import base_state, embedded

    if after:
        raise UsageError("--after goes with states; a sandbox is drafted from its base state")
    with embedded(sandbox) as running:
        return what_was_seen(base_state(running), None, sandbox)


def what_was_seen(before: Capture, after: Capture | None, sandbox: str | None) -> Seen:
    """What a draft is made of: a state, or what changed between two."""
    from statediff.contract.authoring.drafting import Seen
    from statediff.evaluate import schema_of

    sources = tuple(part.reading.source for part in before.parts)
    schema = schema_of(before) if after is None else schema_of(before, after)
    return Seen(schema, sources, () if after is None else _deltas(before, after), sandbox)


def _deltas(before: Capture, after: Capture) -> tuple[Any, ...]:
    """What differs between the two, with nothing excluded and nothing canonicalized."""
    from statediff.diff import diff
    from statediff.resolve import resolve

    matching = resolve(before, after).matchings[0]
    return diff(matching.before, matching.after).deltas
