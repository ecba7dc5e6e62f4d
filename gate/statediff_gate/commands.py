"""`gate`, `hold`, `approve`, `undo`: the commands of the gate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from statediff.cli.options import JsonFlag, flag, opt
from statediff.cli.output import print_result
from statediff.errors import UsageError
from statediff.workspace.folders import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from statediff_gate.gate import Gate
    from statediff_gate.participant import Outcome

StateOption: TypeAlias = Annotated[
    list[str],
    typer.Option("--state", metavar="NAME=PLACE", help="A file, a folder, a repository or a URL."),
]
AccountOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--account", metavar="NAME=URL", help="The same with the account that the agent has."
    ),
]
FolderOption: TypeAlias = Annotated[
    Path, typer.Option("--records", metavar="DIR", help="Where decisions and holds are kept.")
]
KeyOption: TypeAlias = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="The key that signs; see `keygen`.")
]
RECORDS: Final = Path(".statediff") / "gate"
_CODES: Final = {"allow": 0, "deny": 1, "hold": 3}


@dataclass(frozen=True, kw_only=True)
class Doors:
    """The ways by which an agent comes to the gate, beside a program on copies."""

    mcp: bool = flag("Serve `query` and `execute` to an MCP client on stdio.")
    hook: bool = flag("Judge each push to a bare git repository from now on.")
    listen: str | None = opt("HOST:PORT", "Judge each letter that comes there.")
    trust: Path | None = opt("FILE", "Whose approvals let a held push pass.")


def gate(
    contract: Annotated[Path, typer.Argument(metavar="CONTRACT", help="What may be done.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- AGENT...]", help="The agent's program, run on copies."),
    ] = None,
    *,
    state: StateOption,
    key: KeyOption,
    account: AccountOption = None,
    records: FolderOption = RECORDS,
    doors: Doors,
    as_json: JsonFlag = False,
) -> int:
    """Stand before systems: commit what an agent does there only where its contract allows it.

    With a program, it runs on copies; what it did is committed on MATCH, else held. Ends with 0
    where it was committed, 1 where it was denied, 3 where it is held.
    """
    if doors.mcp + doors.hook + bool(doors.listen) + bool(command) != 1:
        raise UsageError("give the agent's program behind `--`, or one of --mcp, --hook, --listen")
    systems = pairs(state)
    if doors.hook:
        from statediff_gate.pushes.hooks import install

        folder = install(contract, systems, pairs(account or ()), records, key, doors.trust)
        print_result({"hooks": shown(folder)}, f"each push is judged by {shown(folder)}",
                     as_json=as_json)  # fmt: skip
        return 0
    if doors.mcp or doors.listen:
        with _gate(contract, state, account, records, key) as opened:
            if doors.listen:
                from statediff_gate.relay import serve

                serve(opened, doors.listen)
            else:
                _serve(opened)
        return 0
    from statediff.packs import known_sandbox
    from statediff.scoring import contract_of
    from statediff.workspace.inputs import refinements
    from statediff_gate.shadow import pass_on, run_on_shadow

    file = contract_of(contract)
    refined = refinements(None, known_sandbox(file))
    given = pairs(account or ())
    shadowed = run_on_shadow(file, systems, given, list(command or ()), refined)
    with _gate(contract, state, account, records, key) as opened:
        outcome = pass_on(opened, shadowed)
    return _printed(outcome, as_json=as_json)


def _gate(contract: Path, state: Sequence[str], account: Any, records: Path, key: Path) -> Gate:
    from statediff_gate.gate import Gate

    given = pairs(account or ())
    return Gate(contract, pairs(state), accounts=given, folder=records, key=key)


def _serve(opened: Gate) -> None:
    from statediff.agents.recorder import Recorder
    from statediff.agents.tools import ToolTable
    from statediff.capture.source import clock
    from statediff.extras import require_extra
    from statediff_gate.serving import gated_tools

    for package in ("statediff_hosts", "mcp"):
        require_extra("agents", package, "statediff gate --mcp")
    from statediff_hosts.protocols.mcp_server import mcp_server, serve_stdio

    with Recorder(None, clock) as recorder:
        table = ToolTable(gated_tools(opened), recorder)
        try:
            serve_stdio(mcp_server("statediff gate", table))
        finally:
            table.close()


def _printed(outcome: Outcome, *, as_json: bool) -> int:
    decision = outcome.decision.value
    done = "committed" if outcome.is_committed else "nothing was changed"
    text = f"{decision.upper()}  {done}  {outcome.record}"
    why = {"why": outcome.why} if outcome.why else {}
    print_result(
        {"decision": decision, "committed": outcome.is_committed, "record": outcome.record,
         "digest": outcome.digest, **why},
        f"{text}\n{outcome.why}" if outcome.why else text, as_json=as_json,
    )  # fmt: skip
    return 0 if outcome.is_committed else _CODES[decision]


def pairs(listed: Sequence[str]) -> dict[str, str]:
    """Name → place. `UsageError` where one is not so written."""
    found: dict[str, str] = {}
    for each in listed:
        name, is_pair, place = each.partition("=")
        if not (name and is_pair and place) or name in found:
            raise UsageError(f"{each}: expected NAME=PLACE, each name once")
        found[name] = place
    return found


# ---------------------------------------------------------------- what waits for a person


def decisions(
    records: FolderOption = RECORDS,
    as_json: JsonFlag = False,
) -> None:
    """List every decision of a gate, oldest first, each checked against its signature."""
    from statediff_gate.records import read_decisions

    for each in read_decisions(records):
        where = records / "decisions" / str(each["name"])
        text = f"{each['decision']:<5}  {each['at']}  {each['name']}  {each['why']}".rstrip()
        if each["commits"] and not each["is_committed"]:
            text += "\n       nobody saw whether it was committed: look at the system"
        seen = f"\n       statediff show {shown(where)}" if where.is_dir() else ""
        print_result(dict(each), text + seen, as_json=as_json)


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The hold.")],
    records: FolderOption = RECORDS,
    as_json: JsonFlag = False,
) -> None:
    """Show what a hold would change, and why it is held."""
    from statediff_gate.holds import read_hold

    hold = read_hold(_hold_path(records, name))
    lines = [f"{c['op']} {c['type']} {c['key']} {c['path']}".rstrip() for c in hold.changes]
    text = "\n".join([f"HOLD  {hold.name}  {hold.contract}", hold.why, *lines, hold.digest])
    print_result(hold.document(), text, as_json=as_json)


def commit(  # noqa: PLR0913 - options of a command
    name: Annotated[str, typer.Argument(metavar="NAME", help="The hold.")],
    contract: Annotated[Path, typer.Argument(metavar="CONTRACT", help="The same as then.")],
    *,
    approval: Annotated[
        Path, typer.Option("--approval", metavar="FILE", help="What `statediff approve` wrote.")
    ],
    trust: Annotated[Path, typer.Option("--trust", metavar="FILE", help="Whose approvals count.")],
    state: StateOption,
    key: KeyOption,
    account: AccountOption = None,
    records: FolderOption = RECORDS,
    as_json: JsonFlag = False,
) -> int:
    """Run the statements of a hold again; commit them where they do what was approved."""
    from statediff.evidence.keys import load_trust
    from statediff.workspace.bundles import read_file
    from statediff_gate.holds import read_approval, read_hold, utc_now

    hold = read_hold(_hold_path(records, name))
    with _gate(contract, state, account, records, key) as opened:
        said = read_approval(
            read_file(approval), load_trust(trust), utc_now(), opened.records.contract_digest
        )
        if said.hold != hold.name:
            raise UsageError(f"the approval is of {said.hold}, and not of {hold.name}")
        outcome = opened.approve(hold, said)
    return _printed(outcome, as_json=as_json)


def approve(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The hold, as `hold list` names it.")],
    *,
    key: KeyOption,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Where the signed approval goes.")
    ] = Path("approval.json"),
    minutes: Annotated[
        int, typer.Option("--minutes", min=1, max=10_080, help="How long it may be used.")
    ] = 60,
    records: FolderOption = RECORDS,
    as_json: JsonFlag = False,
) -> None:
    """Approve exactly what a hold would do: once, until it expires, signed by a reviewer's key."""
    from statediff.atomic import write_atomically
    from statediff.evidence.keys import load_key
    from statediff_gate.holds import approve as sign
    from statediff_gate.holds import read_hold, utc_now

    hold, at = read_hold(_hold_path(records, name)), utc_now()
    expires = at + timedelta(minutes=minutes)
    try:
        write_atomically(out, sign(hold, load_key(key), at, expires), exclusive=True, durable=True)
    except FileExistsError:
        raise UsageError(f"{out} exists already; an approval is never overwritten") from None
    print_result(
        {"approval": shown(out), "hold": hold.name, "digest": hold.digest,
         "expires": expires.isoformat()},
        f"{shown(out)} approves {hold.name} until {expires.isoformat()}", as_json=as_json,
    )  # fmt: skip


def _hold_path(records: Path, name: str) -> Path:
    if Path(name).name != name:
        raise UsageError(f"{name}: expected the name of a hold")
    return records / "holds" / f"{name}.json"


# ---------------------------------------------------------------- taking back


def undo(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The judged run.")],
    *,
    state: StateOption,
    account: AccountOption = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would be undone, and change nothing.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Undo what a run did beyond its contract, where every row is still as the run left it.

    Ends with 0 where it is undone, 1 where nothing was changed, with the reason.
    """
    from statediff.workspace.bundles import load_bundle
    from statediff_gate.undo import undo_run

    done = undo_run(load_bundle(bundle)[0], pairs(state), pairs(account or ()), is_plan=plan)
    for each in done.inverses:
        print_result(
            {"undo": each.delta.id, "op": each.delta.op.value, "violates": each.why},
            f"undo {each.delta.op.value} {each.delta.id}  ({each.why})", as_json=as_json,
        )  # fmt: skip
    said: dict[str, Any] = {"undone": done.is_done, "why": done.why}
    print_result(said, done.why or ("undone" if done.is_done else "planned"), as_json=as_json)
    return 1 if done.why else 0


HOLD: Final = (("list", decisions), ("show", show), ("commit", commit))
