"""Harm that a run did is taken back in each system, and what is right stays."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from statediff_gate.entries import rewrite
from statediff_gate.mail import MailGate
from statediff_gate.statements import RowEdit
from statediff_git.source import GitSource
from statediff_mariadb.source import MariaDbSource
from statediff_office.mail.source import OutboxProcess
from statediff_postgres.source import PostgresSource

import statediff
from gate.tests.conftest import CONTRACT, MADE
from gate.tests.servers import TARGETS, ask, programs
from gate.tests.test_folders import CONTRACT as FILES
from gate.tests.test_folders import PERSON
from gate.tests.test_pushes import CONTRACT as PUSHES
from gate.tests.test_pushes import served
from sandboxes.git.tests.git_repositories import git
from statediff import kernel
from statediff.capture.source import clock
from statediff.capture.take import take
from statediff.cli.main import run
from statediff.errors import UsageError
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from statediff.systems.files.source import FILE, FilesSource
from statediff.systems.sqlite.source import SqliteSource
from statediff.workspace.folders import keep_bundle


class UndoSuite:
    """A run that did what it should, and harm; then others write, each time so that it refuses.

    A subclass says how the system is `made`, how to `do` something past any gate, and its `source`.
    """

    contract: ClassVar[str] = CONTRACT
    harm: ClassVar[tuple[str, ...]] = (
        "UPDATE orders SET status = 'refunded' WHERE id = 7",
        "DELETE FROM customer WHERE id = 17",
        "UPDATE orders SET cents = 1, note = 'X' WHERE id = 8",
        "INSERT INTO customer VALUES (3, 'Eve')",
    )
    undone: ClassVar[int] = 4
    since: ClassVar[tuple[tuple[str, str], ...]] = (
        ("UPDATE orders SET cents = 2 WHERE id = 8", "UPDATE orders SET cents = 1 WHERE id = 8"),
        ("UPDATE orders SET note = 'x' WHERE id = 8", "UPDATE orders SET note = 'X' WHERE id = 8"),
        ("INSERT INTO customer VALUES (17, 'another')", "DELETE FROM customer WHERE id = 17"),
        ("UPDATE customer SET name = 'a' WHERE id = 3",
         "UPDATE customer SET name = 'Eve' WHERE id = 3"),
    )  # fmt: skip
    """Statements of others, and those that take them back."""

    def test_harm_is_undone_where_all_is_as_the_run_left_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with self.made(tmp_path) as (place, account):
            file = statediff.load_contract(self.contract)

            def look(moment: str) -> Capture:
                return take([self.source(place)], MemoryChunks(), clock, None, moment)

            def undo(*more: str) -> tuple[int, int]:
                given = ["--state", f"s={place}", "--account", f"s={account}"]
                code = run(["undo", str(tmp_path / "bundle"), *given, "--json", *more])
                return code, len(capsys.readouterr().out.splitlines()) - 1

            before = look("before")
            for each in self.harm:
                self.do(place, each)
            done = kernel.evaluate(file, before, look("after"))
            assert done.judgement.verdict is statediff.Verdict.DIVERGE
            keep_bundle(done.bundle, tmp_path / "bundle")
            for each, back in (*self.since, ("", "")):
                if each:
                    self.do(place, each)
                there = look("after")
                assert undo("--plan" if not each else "--json") == (bool(each), self.undone), each
                assert not kernel.comparison(there, look("after")).diff.deltas
                if back:
                    self.do(place, back)
            assert undo() == (0, self.undone)
            left = kernel.evaluate(file, before, look("after")).judgement
            assert left.verdict is statediff.Verdict.MATCH, left.findings


TRIGGER = "CREATE TRIGGER t AFTER INSERT ON customer BEGIN INSERT INTO log VALUES ('more'); END"


KINDS = (
    "CREATE TABLE kinds (id int PRIMARY KEY, n decimal(9, 2), t timestamp(3) NULL, l datetime(6))",
    "ALTER TABLE kinds ADD (d date, y varbinary(9), j json, e enum('a', 'B'), b bool, m time)",
    ("INSERT INTO kinds VALUES (1, 1.50, '2026-03-29 02:30:00.123', '0001-01-01 00:00:00.000001',"
     " '2026-02-28', X'00FF27', '{\"a\": [1.0, \"ü\\\\\\\\''\"]}', 'B', 1, '-100:00:01')"),
)  # fmt: skip


class DatabaseSuite(UndoSuite):
    system: ClassVar[str]
    more: ClassVar[tuple[str, ...]] = ()

    @contextmanager
    def made(self, home: Path) -> Iterator[tuple[str, str]]:
        with TARGETS[self.system](*MADE, *self.more) as target:
            yield target.url, target.account

    def do(self, place: str, statement: str) -> None:
        ask(place, statement)

    def source(self, place: str) -> Any:
        if self.system == "sqlite":
            return SqliteSource("s", Path(place))
        return {"mariadb": MariaDbSource, "postgres": PostgresSource}[self.system]("s", place)


class TestSqlite(DatabaseSuite):
    system: ClassVar = "sqlite"
    since: ClassVar = ((TRIGGER, "DROP TRIGGER t"), *UndoSuite.since)


class TestMariaDb(DatabaseSuite):
    system: ClassVar = "mariadb"
    more: ClassVar = KINDS
    harm: ClassVar = (
        *UndoSuite.harm, "DELETE FROM kinds", "UPDATE orders SET status = 'PAID' WHERE id = 8",
    )  # fmt: skip
    undone: ClassVar = 6
    since: ClassVar = (
        (TRIGGER.replace("customer BEGIN", "customer FOR EACH ROW BEGIN"), "DROP TRIGGER t"),
        *UndoSuite.since,
    )


@pytest.mark.skipif(programs() is None, reason="no PostgreSQL with test_decoding")
class TestPostgres(DatabaseSuite):
    system: ClassVar = "postgres"


def test_a_letter_that_was_sent_is_not_taken_back(tmp_path: Path) -> None:
    with OutboxProcess() as outbox:
        mail = MailGate("s", f"smtp://127.0.0.1:{outbox.smtp_port}", tmp_path / "letters")
        with pytest.raises(UsageError, match="cannot be taken back"):
            mail.rewriting([], mail.world("before").state.schema)


@pytest.mark.parametrize("path", ["../x", "/tmp/x", "out/x", ".."])
def test_no_entry_is_written_outside_the_copy(tmp_path: Path, path: str) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "out").symlink_to(tmp_path)
    row = {"path": path, "kind": "directory", "mode": "0700"}
    with pytest.raises(UsageError, match="outside"):
        rewrite(copy, [RowEdit(FILE, None, row)], lambda *_: None, is_checkout=False)


class TestGit(UndoSuite):
    contract: ClassVar = PUSHES
    harm: ClassVar = (
        "commit --allow-empty -m right", "push origin topic", "commit --allow-empty -m wrong",
        "push -f origin topic~1:main topic:evil :v1",
    )  # fmt: skip
    undone: ClassVar = 9
    since: ClassVar = (("push -f origin topic:main", "push -f origin topic~1:main"),)

    @contextmanager
    def made(self, home: Path) -> Iterator[tuple[str, str]]:
        place = served(home)
        git(home / "clone", "switch", "-q", "topic")
        yield str(place), str(place)

    def do(self, place: str, statement: str) -> None:
        git(Path(place).parent / "clone", *statement.split())

    def source(self, place: str) -> Any:
        return GitSource("s", Path(place), is_bare=True)


class TestFolder(UndoSuite):
    contract: ClassVar = FILES
    harm: ClassVar = (
        "echo hi > b.txt", "echo 2 >> a.txt", "rm -r sub; echo x > sub", "rm l; ln -s /etc l",
        "mkdir -m 700 evil; touch evil/f; chmod 600 mode",
    )  # fmt: skip
    undone: ClassVar = 11
    since: ClassVar = (
        ("echo 3 >> a.txt", "printf 'one\\n2\\n' > a.txt"), ("echo 4 > evil/f", ": > evil/f"),
        ("rm mode", "touch mode; chmod 600 mode"),
    )  # fmt: skip

    @contextmanager
    def made(self, home: Path) -> Iterator[tuple[str, str]]:
        place = home / "out"
        place.mkdir()
        self.do(str(place), "echo one > a.txt; mkdir -p sub/deep; echo x > sub/deep/x; touch mode")
        self.do(str(place), "ln -s a.txt l")
        yield str(place), str(place)

    def do(self, place: str, statement: str) -> None:
        subprocess.run(["sh", "-ec", statement], cwd=place, check=True)

    def source(self, place: str) -> Any:
        return FilesSource("s", Path(place))


class TestCheckout(TestFolder):
    contract: ClassVar = FILES.replace(" file", " git.work_file")
    harm: ClassVar = (
        *TestFolder.harm, f"git add -A a.txt sub; git {' '.join(PERSON)} commit -qm wrong",
        "echo 'touch ../hooked' > .git/hooks/reference-transaction; git tag v1",
        "chmod 755 .git/hooks/*",
    )  # fmt: skip
    undone: ClassVar = 22

    @contextmanager
    def made(self, home: Path) -> Iterator[tuple[str, str]]:
        with super().made(home) as (place, account):
            self.do(place, f"git init -qb main; git add .; git {' '.join(PERSON)} commit -qm one")
            yield place, account
            assert not (home / "hooked").exists()

    def source(self, place: str) -> Any:
        return GitSource("s", Path(place), is_bare=False)
