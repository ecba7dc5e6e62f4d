"""`fmt`: contract files in their one canonical form."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from statediff.cli.output import JsonFlag

FMT = "statediff/fmt/1"


def fmt(
    contracts: Annotated[
        list[str],
        typer.Argument(metavar="CONTRACT...", help="Contract files, folders, or packs' names."),
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with 2 if a file would change.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Write contracts in their canonical form: order of keys, block style, quotes; comments stay.

    The parsed contract never changes. A file that does not parse is refused, a released version
    is left as it is.
    """
    from statediff.cli.faults import USAGE
    from statediff.cli.output import emit, results, shown
    from statediff.contract.authoring.formatting import formatted
    from statediff.evaluate import load_contract
    from statediff.workspace.contracts import contract_paths
    from statediff.workspace.folders import write_file
    from statediff.workspace.releases import is_released

    done: list[dict[str, Any]] = []
    for path in contract_paths(contracts):
        file = load_contract(path)
        new = formatted(file.data, str(path))
        state = "same" if new == file.data else "changed"
        if state == "changed" and is_released(path, file):
            state = "released"
        if state == "changed" and not check:
            write_file(path, new)
        done.append({"file": shown(path), "result": state})
    changed = [entry for entry in done if entry["result"] == "changed"]
    if as_json:
        emit({"schema": FMT, "check": check, "files": done, "changed": len(changed)})
    else:
        console = results()
        words = {
            "changed": "would change" if check else "formatted", "same": "is formatted",
            "released": "is released and stays as it is",
        }  # fmt: skip
        for entry in done:
            console.print(f"{entry['file']}  {words[entry['result']]}", soft_wrap=True)
    return USAGE if check and changed else 0
