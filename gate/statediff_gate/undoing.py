"""The undo of one run, from its bundle and the place of the system that it changed."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from statediff.errors import UsageError
from statediff.evidence.package import Bundle
from statediff.kernel import contract_in
from statediff.packs import known_sandbox
from statediff.workspace.inputs import refinements
from statediff_gate.journal import Journal
from statediff_gate.participant import Refused
from statediff_gate.systems import open_participants
from statediff_gate.undo import Inverse, plan, to_undo, undo


@dataclass(frozen=True)
class UndoneRun:
    """The outcome of an undo."""

    inverses: tuple[Inverse, ...]
    is_done: bool
    why: str = ""
    """Why nothing was changed."""


def undo_run(
    bundle: Bundle, systems: Mapping[str, str], accounts: Mapping[str, str], *, is_plan: bool
) -> UndoneRun:
    """Take back what the run did beyond its contract, or only say what that would be."""
    if len(systems) != 1:
        raise UsageError("name the one system that is to be put right")
    inverses = to_undo(bundle)
    if not inverses:
        return UndoneRun((), is_done=False, why="nothing that the run did is against its contract")
    [name] = systems
    refined = refinements(None, known_sandbox(contract_in(bundle.files)))
    with tempfile.TemporaryDirectory(prefix="statediff-undo-") as folder:
        journal = Journal(Path(folder))
        [system] = open_participants(systems, accounts, refined, journal).values()
        try:
            edits = plan(inverses, system.world("before").state.schema)
            if is_plan:
                return UndoneRun(inverses, is_done=False)
            dialect = "" if system.product is None else system.product[1]
            undo(system, edits, dialect, journal.name(secrets.token_hex(8)))
        except (Refused, UsageError) as error:
            return UndoneRun(inverses, is_done=False, why=f"{name}: {error}")
        finally:
            system.close()
    return UndoneRun(inverses, is_done=True)
