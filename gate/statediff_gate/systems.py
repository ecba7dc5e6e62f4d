"""The systems that a gate can stand before, by their paths and URLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from statediff.errors import UsageError
from statediff.systems.base.plugin import Refinement
from statediff.workspace.inputs import Refinements
from statediff_gate.journal import Journal
from statediff_gate.participant import Participant
from statediff_gate.sqlite import SqliteGate

POSTGRES_URLS = ("postgresql://", "postgres://")
_MARIADB = ("mysql://", "mariadb://")
_SERVERS = (*POSTGRES_URLS, *_MARIADB)


Place: TypeAlias = str | Path | Callable[[str, Refinement | None, Journal], Participant]
"""A path, an URL, or what a door opens there itself."""


def open_participants(
    systems: Mapping[str, Place],
    accounts: Mapping[str, str],
    refined: Refinements,
    journal: Journal,
) -> dict[str, Participant]:
    """Each system behind the gate. `UsageError` where one cannot be, or two prepare in memory."""
    if unknown := sorted({*accounts} - {*systems}):
        raise UsageError(f"an account of {unknown[0]}, which is none of the systems")
    if sum(map(is_file, systems.values())) > 1:
        raise UsageError(
            "two systems that prepare nothing durably cannot be committed together: at most one "
            "SQLite file may stand behind a gate"
        )
    for place in (*systems.values(), *accounts.values()):
        _require_port(place)
    found: dict[str, Participant] = {}
    journal.systems = tuple(systems)
    try:
        for name, place in sorted(systems.items(), key=lambda each: not is_file(each[1])):
            given = accounts.get(name, str(place))
            system = found[name] = _opened(name, place, given, refined(name), journal)
            if isinstance(system, SqliteGate):
                journal.settle(name, system)
        journal.forget_ended()
    except BaseException:
        for each in found.values():
            each.close()
        raise
    return found


def _opened(
    name: str, place: Place, account: str, refine: Refinement | None, journal: Journal
) -> Participant:
    """The system at a place. Few gates stand before one whose drivers take long to load."""
    if callable(place):
        return place(name, refine, journal)
    url = str(place)
    path = Path(url.removeprefix("sqlite:///").removeprefix("file://"))
    if is_repository(place):
        from statediff_gate.repository import GitGate  # noqa: PLC0415 - as said

        return GitGate(name, path, refine, journal.beside("pushes.json"))
    if url.startswith("smtp://"):
        from statediff_gate.mail import MailGate  # noqa: PLC0415 - as said

        return MailGate(name, url, journal.beside("letters"))
    if url.startswith(_MARIADB):
        from statediff_gate.mariadb import MariaDbGate  # noqa: PLC0415 - as said

        return MariaDbGate(name, url, account, refine, journal)
    if is_server(place):
        from statediff_gate.postgres import PostgresGate  # noqa: PLC0415 - as said

        return PostgresGate(name, url, account, refine, journal)
    if is_folder(place):
        from statediff_gate.folders import FolderGate  # noqa: PLC0415 - as said

        return FolderGate(name, path, refine)
    return SqliteGate(name, path, refine)


def _require_port(place: Place) -> None:
    """The port of the URL is a number. `UsageError`; PostgreSQL's may name several servers."""
    if isinstance(place, str) and place.startswith((*_MARIADB, "smtp://")):
        try:
            _ = urlsplit(place).port
        except ValueError as error:
            raise UsageError(f"{place.rpartition('@')[2]}: {error}") from error


def is_server(place: Place) -> bool:
    """True for the URL of a server that prepares durably."""
    return isinstance(place, str) and place.startswith(_SERVERS)


def is_repository(place: Place) -> bool:
    """True for the folder of a bare git repository."""
    return not callable(place) and all(
        (Path(place) / each).exists() for each in ("HEAD", "objects", "refs")
    )


def is_folder(place: Place) -> bool:
    """True for a folder of files, or a checkout."""
    is_one = isinstance(place, str | Path) and Path(str(place).removeprefix("file://")).is_dir()
    return is_one and not is_repository(place)


def is_file(place: Place) -> bool:
    """True for a SQLite file."""
    is_url = str(place).startswith((*_SERVERS, "smtp://"))
    return not (callable(place) or is_url or is_repository(place) or is_folder(place))
