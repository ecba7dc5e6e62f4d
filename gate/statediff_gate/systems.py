"""The systems that a gate can stand before, by their paths and URLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from statediff.errors import UsageError
from statediff.systems.base.plugin import Refinement
from statediff.workspace.inputs import Refinements
from statediff_gate import sqlite
from statediff_gate.journal import Journal
from statediff_gate.participant import Participant

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
            refine = refined(name)
            if callable(place):
                found[name] = place(name, refine, journal)
                continue
            url = str(place)
            # Few gates stand before one of these, and its drivers take long to load.
            if is_repository(place):
                from statediff_gate import repository  # noqa: PLC0415 - as said

                kept = journal.beside("pushes.json")
                found[name] = repository.GitGate(name, Path(url), refine, kept)
            elif url.startswith("smtp://"):
                from statediff_gate import mail  # noqa: PLC0415 - as said

                found[name] = mail.MailGate(name, url, journal.beside("letters"))
            elif url.startswith(_MARIADB):
                from statediff_gate import mariadb  # noqa: PLC0415 - as said

                account = accounts.get(name, url)
                found[name] = mariadb.MariaDbGate(name, url, account, refine, journal)
            elif is_server(place):
                from statediff_gate import postgres  # noqa: PLC0415 - as said

                account = accounts.get(name, url)
                found[name] = postgres.participant(name, url, account, refine, journal)
            elif is_folder(place):
                from statediff_gate import folders  # noqa: PLC0415 - as said

                found[name] = folders.FolderGate(name, Path(url.removeprefix("file://")), refine)
            else:
                file = found[name] = sqlite.participant(name, url, refine)
                journal.settle(name, file)
        journal.forget_ended()
    except BaseException:
        for each in found.values():
            each.close()
        raise
    return found


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
