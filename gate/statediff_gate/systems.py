"""The systems that a gate can stand before, by their paths and URLs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from statediff.errors import UsageError
from statediff.workspace.inputs import Refinements
from statediff_gate import sqlite
from statediff_gate.journal import Journal
from statediff_gate.participant import Participant

_SERVERS = ("postgresql://", "postgres://")


def open_participants(
    systems: Mapping[str, str | Path],
    accounts: Mapping[str, str],
    refined: Refinements,
    journal: Journal,
) -> dict[str, Participant]:
    """Each system behind the gate. `UsageError` where one cannot be, or two prepare in memory."""
    if unknown := sorted({*accounts} - {*systems}):
        raise UsageError(f"an account of {unknown[0]}, which is none of the systems")
    if sum(not is_server(place) for place in systems.values()) > 1:
        raise UsageError(
            "two systems that prepare nothing durably cannot be committed together: at most one "
            "SQLite file may stand behind a gate"
        )
    found: dict[str, Participant] = {}
    try:
        for name, place in sorted(systems.items(), key=lambda each: is_server(each[1])):
            url, refine = str(place), refined(name)
            if is_server(place):
                # Few gates stand before a server.
                from statediff_gate import postgres  # noqa: PLC0415 - its driver takes long to load

                account = accounts.get(name, url)
                found[name] = postgres.participant(name, url, account, refine, journal)
            else:
                file = found[name] = sqlite.participant(name, url, refine)
                journal.settle(name, file)
    except BaseException:
        for each in found.values():
            each.close()
        raise
    return found


def is_server(place: str | Path) -> bool:
    """True for the URL of a server that prepares durably."""
    return str(place).startswith(_SERVERS)
