"""A whole run on copies of the systems; what it did there is done to the systems where it is right.

1. Each system is copied: a SQLite file by SQLite's own backup, a PostgreSQL database by its server,
   a folder or a checkout entry by entry.
2. The agent's program runs with the URLs of the copies, and knows no others.
3. The copies are read, and the run is judged by the whole contract.
4. What it changed, row by row, is run against the systems through the gate (`statediff_gate.gate`),
   each statement on the condition that the row is as the copy had it. A run that is no MATCH is
   held, whatever its prefix would be; a system that is not as the copy was does not give the same
   digest, and is held too. The copy of a folder takes its place (`statediff_gate.folders`).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import apsw

from statediff import kernel
from statediff.agents.handover import read_answer
from statediff.capture.source import Source, clock
from statediff.capture.take import is_ruined, take
from statediff.contract.file import ContractFile
from statediff.errors import SandboxError, UsageError
from statediff.evidence.package import Bundle
from statediff.model.readings import Capture, SourceCapture
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Decision, Verdict
from statediff.reports.line import trial_line
from statediff.systems.base.folders import remove
from statediff.systems.base.plugin import Refinement
from statediff.systems.base.tool import url_variable
from statediff.systems.sqlite.source import SqliteSource
from statediff.workspace.folders import keep_bundle
from statediff.workspace.inputs import Refinements
from statediff_gate import folders
from statediff_gate.course import Changes, Course, structural
from statediff_gate.gate import Gate
from statediff_gate.participant import Outcome, Statement
from statediff_gate.statements import POSTGRES, SQLITE, edits_of, statements
from statediff_gate.systems import POSTGRES_URLS, is_file, is_folder, is_server


@dataclass(frozen=True)
class Shadowed:
    """A run on copies, judged."""

    bundle: Bundle
    verdict: Verdict
    statements: tuple[Statement, ...]
    """The statements that do to the systems what it did to the copies."""
    refused: str | None
    """Why that cannot be done to the systems row by row."""
    copy: Path | None = None
    """That of a folder, which a hold needs."""
    is_ruined: bool = False
    """The run left a copy that nobody can read: that is its change, and nothing is done."""


def run_on_shadow(
    contract: ContractFile,
    systems: Mapping[str, str],
    accounts: Mapping[str, str],
    program: Sequence[str],
    refined: Refinements,
) -> Shadowed:
    """The program's run on copies of the systems. `UsageError` where it cannot be begun.

    The program gets the accounts of `accounts`, and never the evaluator's.
    """
    if folder := next((name for name, place in systems.items() if is_folder(place)), None):
        if len(systems) > 1:
            raise UsageError(f"{folder}: a folder is changed alone, and not with other systems")
        return _on_copied_folder(contract, folder, systems[folder], program, refined(folder))
    for name, place in systems.items():
        if not (is_file(place) or place.startswith(POSTGRES_URLS)):
            raise UsageError(f"{name}: is not copied; use one of --mcp, --hook and --listen")
        if is_server(place) and accounts.get(name, place) == place:
            raise UsageError(f"{name}: name an account of the agent's, and not the evaluator's own")
    with ExitStack() as left:
        home = Path(left.enter_context(tempfile.TemporaryDirectory(prefix="statediff-shadow-")))
        urls = {n: left.enter_context(_copied(n, place, home)) for n, place in systems.items()}
        sources = [_source(name, url, refined) for name, url in urls.items()]
        given = {
            n: urlunsplit(urlsplit(accounts[n])._replace(path=urlsplit(url).path))
            if is_server(url) else url for n, url in urls.items()
        }  # fmt: skip
        before, after, done = _observed(contract, sources, given, program)
        if any(map(is_ruined, after.parts)):
            return Shadowed(done.bundle, done.judgement.verdict, (), None, is_ruined=True)
        sides = {one.reading.source: (one, two)
                 for one, two in zip(before.parts, after.parts, strict=True)}  # fmt: skip
        try:
            listed = tuple(
                (name, text, values)
                for name, place in systems.items()
                for text, values in _statements(name, place, *sides[name])
            )
        except UsageError as error:
            return Shadowed(done.bundle, done.judgement.verdict, (), str(error))
    return Shadowed(done.bundle, done.judgement.verdict, listed, None)


def _on_copied_folder(
    contract: ContractFile,
    name: str,
    place: str,
    program: Sequence[str],
    refine: Refinement | None,
) -> Shadowed:
    path = Path(place.removeprefix("file://")).absolute()
    is_checkout = folders.require_folder(name, path)
    copy, lock = folders.copied(path, path)
    try:
        there, first = (
            folders.read(name, each, refine, is_checkout=is_checkout).state for each in (path, copy)
        )
        if folders.root_of(first) != folders.root_of(there):
            raise UsageError(
                f"{name}: has no exact copy: somebody writes there, or owns files of it"
            )
        source = folders.source_of(name, copy, refine, is_checkout=is_checkout)
        _, after, done = _observed(contract, [source], {name: copy.as_uri()}, program)
    except BaseException:
        folders.drop(copy, lock)
        raise
    bundle, verdict = done.bundle, done.judgement.verdict
    if is_ruined(after.parts[0]):
        folders.drop(copy, lock)
        return Shadowed(bundle, verdict, (), None, is_ruined=True)
    os.close(lock)
    return Shadowed(bundle, verdict, ((name, folders.adoption(there, copy), ()),), None, copy)


def _observed(
    contract: ContractFile, sources: Sequence[Source], urls: Mapping[str, str],
    program: Sequence[str],
) -> tuple[Capture, Capture, kernel.Evaluated]:  # fmt: skip
    """The copies before and after the program's run, and its judgement.

    What the run made unreadable is its change, and no error.
    """
    store = MemoryChunks()
    before = take(sources, store, clock, None, "before")
    for part in before.parts:
        if not part.reading.was_read:
            raise UsageError(f"{part.reading.source}: cannot be read: {part.reading.cause}")
    with tempfile.TemporaryDirectory(prefix="statediff-answer-") as home:
        answer = Path(home) / "answer"
        _run(program, contract, urls, answer)
        after = take(sources, store, clock, before, "after")
        said = read_answer(answer, contract.content.answer.form)
    facts = kernel.TrialFacts("shadow", agent=Path(program[0]).name, isolation="none")
    return before, after, kernel.evaluate(contract, before, after, answer=said, facts=facts)


def pass_on(gate: Gate, shadowed: Shadowed) -> Outcome:
    """Do to the systems what the run did, where it is a MATCH; else hold it."""
    at_most = None
    if shadowed.verdict is not Verdict.MATCH or shadowed.refused is not None:
        said = f"{shadowed.verdict.value}: {trial_line(shadowed.bundle)}"
        decision = Decision.DENY if shadowed.is_ruined else Decision.HOLD
        at_most = decision, shadowed.refused or said
    outcome = gate.execute(shadowed.statements, at_most=at_most)
    if shadowed.copy is not None and outcome.decision is not Decision.HOLD:
        remove(shadowed.copy)
    kept = gate.records.folder / "decisions" / str(outcome.record)
    if not outcome.is_committed and not kept.exists():
        keep_bundle(shadowed.bundle, kept)
    return outcome


def _statements(
    name: str, place: str, before: SourceCapture, after: SourceCapture
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    schema = before.state.schema
    if after.state.schema != schema:
        raise UsageError(f"{name}: the run changed the structure, which is not done row by row")
    _, changes = Course(name, before.state).part_of(after.state)
    own: Changes = {n: e for n, e in changes.items() if not n.startswith("db.")}
    if structure := structural(changes):
        raise UsageError(f"{name}: the run changed {structure[0]}, which is not done row by row")
    dialect = POSTGRES if is_server(place) else SQLITE
    yield from statements(edits_of(own, schema), schema, dialect)


def _run(
    program: Sequence[str], contract: ContractFile, urls: Mapping[str, str], answer: Path
) -> None:
    given = {url_variable(name): url for name, url in urls.items()}
    inputs = {name: str(value) if not isinstance(value, str | int | bool | None) else value
              for name, value in contract.content.inputs.items()}  # fmt: skip
    environment = {
        **os.environ, **given, "STATEDIFF_ANSWER": str(answer),
        "STATEDIFF_INPUTS": json.dumps(inputs, default=str),
    }  # fmt: skip
    try:
        subprocess.run(program, check=False, env=environment)  # its verdict says how it went
    except OSError as error:
        raise UsageError(f"the agent cannot be started: {program[0]}: {error.strerror}") from error


def _source(name: str, url: str, refined: Refinements) -> Source:
    if not is_server(url):
        return SqliteSource(name, Path(url.removeprefix("sqlite:///")), refined(name))
    from statediff_postgres.source import PostgresSource  # noqa: PLC0415 - of servers alone

    return PostgresSource(name, url, refined(name))


@contextmanager
def _copied(name: str, place: str, home: Path) -> Iterator[str]:
    """The URL of a copy, which is gone with the folder, or after the block."""
    if is_server(place):
        with _copied_by_server(place) as url:
            yield url
        return
    copy, path = home / f"{name}.sqlite", place.removeprefix("sqlite:///")
    if not Path(path).is_file():
        raise UsageError(f"{name}: there is no database {path}")
    with (
        closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as source,
        closing(apsw.Connection(str(copy))) as target,
        target.backup("main", source, "main") as backup,
    ):
        backup.step()
    yield f"sqlite:///{copy.absolute()}"


@contextmanager
def _copied_by_server(url: str) -> Iterator[str]:
    import psycopg  # noqa: PLC0415 - of servers alone
    from psycopg import sql  # noqa: PLC0415 - as above

    parts = urlsplit(url)
    database = parts.path.lstrip("/")
    copy = f"statediff_shadow_{os.getpid()}_{os.urandom(4).hex()}"
    elsewhere = urlunsplit(parts._replace(path="/postgres"))
    with psycopg.connect(elsewhere, autocommit=True) as admin:
        names = {"copy": sql.Identifier(copy), "of": sql.Identifier(database)}
        try:
            admin.execute(sql.SQL("CREATE DATABASE {copy} TEMPLATE {of}").format(**names))
        except psycopg.Error as error:
            raise SandboxError(f"{database} cannot be copied: {error}") from error
        try:
            yield urlunsplit(parts._replace(path=f"/{copy}"))
        finally:
            admin.execute(sql.SQL("DROP DATABASE IF EXISTS {copy} WITH (FORCE)").format(**names))
