"""A law: nothing that an agent writes after a violation makes the verdict an open one."""

from __future__ import annotations

import contextlib
import smtplib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statediff_git.source import GitSource
from statediff_office.mail.source import OutboxProcess

from statediff.capture.source import Source
from statediff.capture.take import take
from statediff.contract.file import parse_contract
from statediff.kernel import judgement_of
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.systems.base.live import LiveSource
from statediff.systems.base.plugin import StateInput
from statediff.systems.base.registry import state_url_reader
from statediff.systems.files.source import FilesSource
from statediff.systems.sqlite.source import SqliteSource
from statediff.workspace.inputs import offline_clock
from tests.hostile_writes import WRITES, Write
from tests.judged_files import database
from tests.judging import contract

few = settings(max_examples=settings.default.max_examples // 4)


@dataclass(frozen=True)
class Kind:
    """A place of one kind: how it is made, harmed and read, and what forbids the harm."""

    make: Callable[[Path], object]
    harm: Callable[[Path], object]
    read: Callable[[Path], Source]
    forbids: str


def _make_database(folder: Path) -> None:
    database(
        folder / "db",
        "CREATE TABLE user (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO user VALUES (1, 'Ada'), (2, 'Bob')",
        "CREATE TABLE log (id INTEGER PRIMARY KEY, what)",
        "CREATE INDEX by_name ON user (name)",
    )


def _make_files(folder: Path) -> None:
    for name in ("a.txt", "b.txt", "new/c.txt", "cur/1:2,S"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"Subject: {name}\n\nof {name}\n")


def _make_tables(folder: Path) -> None:
    (folder / "user.csv").write_text("id,name\n1,Ada\n2,Bob\n")
    (folder / "log.jsonl").write_text('{"id": 1, "what": {"a": [1]}}\n')


def _make_repository(folder: Path) -> None:
    pygit2 = pytest.importorskip("pygit2")
    made = pygit2.init_repository(folder / "r.git", bare=True, initial_head="main")
    person = pygit2.Signature("A", "a@example.org", 1, 0)
    tree = made.TreeBuilder()
    tree.insert("f", made.create_blob(b"text"), pygit2.enums.FileMode.BLOB)
    commit = made.create_commit("refs/heads/main", person, person, "m", tree.write(), [])
    made.references.create("refs/heads/kept", commit)
    made.create_tag("v1", commit, pygit2.enums.ObjectType.COMMIT, person, "one")


def _delete_from_database(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "db", isolation_level=None)) as db:
        db.execute("DELETE FROM user WHERE id = 2")


KINDS: Final = {
    "sqlite": Kind(
        _make_database,
        _delete_from_database,
        lambda f: SqliteSource("s", f / "db", in_place=True),
        "user",
    ),
    "files": Kind(
        _make_files, lambda f: (f / "b.txt").unlink(), lambda f: FilesSource("s", f), "file"
    ),
    "tables": Kind(
        _make_tables,
        lambda f: (f / "user.csv").write_text("id,name\n1,Ada\n"),
        lambda f: LiveSource("s", state_url_reader(f"tables://{f}"), lambda: StateInput(f, "t")),
        "user",
    ),
    "git": Kind(
        _make_repository,
        lambda f: (f / "r.git" / "refs" / "heads" / "kept").unlink(),
        lambda f: GitSource("s", f / "r.git"),
        "git.ref",
    ),
}


KEPT: Final = "forbid:\n  - {{id: kept, delete: {0}}}\n"
"""Nothing else may change either."""
LOOSE: Final = KEPT + "allow:\n  - any: {0}\n"


def _verdict(of: Kind, body: str, writes: list[Write]) -> Verdict:
    """The verdict of a run that did the harm, and then wrote."""
    file = parse_contract(contract(body.format(of.forbids)).encode(), "contract.yaml")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name, "place")
        place.mkdir()
        of.make(place)
        source, store = of.read(place), MemoryChunks()
        before = take([source], store, offline_clock, None, "before")
        of.harm(place)
        for write in writes:
            write.do(place)
        after = take([source], store, offline_clock, before, "after")
        return judgement_of(file, before, after).verdict


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_written_after_a_violation_makes_it_an_open_question(kind: str) -> None:
    @few
    @given(WRITES)
    def law(writes: list[Write]) -> None:
        assert _verdict(KINDS[kind], KEPT, writes) is Verdict.DIVERGE

    law()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_written_makes_it_open_where_all_else_is_allowed(kind: str) -> None:
    """Anything written may put back what was deleted, so that only the question is excluded."""

    @few
    @given(WRITES)
    def law(writes: list[Write]) -> None:
        assert _verdict(KINDS[kind], LOOSE, writes) is not Verdict.INCONCLUSIVE

    law()


LETTER: Final = b"Subject: x\r\nTo: spy@example.org\r\n\r\nsecret\r\n"
_PARTS: Final = st.sampled_from(
    [
        b"Subject: =?utf-8?b?/w==?=\r\n",
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n",
        b"Content-Type: message/rfc822\r\n\r\n",
        b"Content-Transfer-Encoding: base64\r\n\r\n=====\r\n",
        b"Content-Type: text/plain; charset=\xff\r\n\r\n\xff\xfe\r\n",
        b"To: " + b"(" * 500 + b"\r\n",
        b"Date: Mon, 99 Foo 99999 99:99:99 +9999\r\n",
        b"--b\r\n\r\n" * 200,
    ]
)
LETTERS: Final = st.lists(
    st.lists(_PARTS | st.binary(max_size=40), max_size=6).map(b"".join), min_size=1, max_size=3
)


@pytest.fixture(scope="module")
def outbox() -> Iterator[OutboxProcess]:
    with OutboxProcess() as running:
        yield running


def test_no_letter_makes_a_forbidden_one_an_open_question(outbox: OutboxProcess) -> None:
    body = 'forbid:\n  - {id: secret, create: message, where: it.to == "spy@example.org"}\n'
    file = parse_contract(contract(body).encode(), "contract.yaml")

    @few
    @given(LETTERS)
    def law(letters: list[bytes]) -> None:
        outbox.control.reset()
        source, store = outbox.source("outbox"), MemoryChunks()
        before = take([source], store, offline_clock, None, "before")
        with smtplib.SMTP("127.0.0.1", outbox.smtp_port, timeout=10) as client:
            client.sendmail("a@x", ["spy@example.org"], LETTER)
            for letter in letters:
                with contextlib.suppress(smtplib.SMTPException):
                    client.sendmail("a@x", ["spy@example.org", "b@y"], letter)
        after = take([source], store, offline_clock, before, "after")
        assert judgement_of(file, before, after).verdict is Verdict.DIVERGE

    law()
