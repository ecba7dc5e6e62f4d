"""The systems in containers do what the kit asks of every system whose agent signs in."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import httpx
import psycopg
import pymysql
import pytest

from statediff.conformance import AccountSuite, Change, FeedRun, FeedSuite, Way
from statediff.packs import SandboxPack, sandbox_pack
from statediff.systems.base.protocol import System


def push(*arguments: str) -> Callable[[System], None]:
    """A push of a fresh clone, as an agent makes it."""

    def apply(system: System) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run = ("git", "-C", folder)
            subprocess.run([*run, "clone", "-q", system.url, "."], check=True)
            subprocess.run([*run, "tag", "mine", "origin/main"], check=True)
            subprocess.run([*run, "push", "-q", "origin", *arguments], check=True)

    return apply


@pytest.mark.docker("git")
class TestGit(AccountSuite):
    source = "origin"
    ways: ClassVar = {
        "a tag is pushed": Way(push("mine")),
        "a branch is pushed": Way(push("mine:refs/heads/mine")),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("repo", "git")

    def lets_in(self, url: str) -> bool:
        return httpx.get(f"{url}/info/refs?service=git-upload-pack").status_code == 200


def execute(statement: str) -> Callable[[System], None]:
    def apply(system: System) -> None:
        with psycopg.connect(system.url, autocommit=True) as connection:
            connection.execute(statement)

    return apply


@pytest.mark.docker("postgres")
class TestPostgres(AccountSuite):
    source = "shop-db"
    secrets = frozenset({("db.role", "password")})
    ways: ClassVar = {
        "a row is gone": Way(execute("DELETE FROM refunds")),
        "a table is added": Way(execute("CREATE TABLE mine (x int)")),
        "a sequence has moved": Way(
            execute("CREATE SEQUENCE s; SELECT nextval('s'); DROP SEQUENCE s"), is_state=False
        ),
        "a setting of the role": Way(execute("ALTER ROLE agent SET search_path = pg_catalog")),
        "a large object": Way(execute("SELECT lo_create(0)")),
        "a password of its own": Way(execute("ALTER ROLE agent PASSWORD 'mine'"), is_state=False),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("shop", "postgres")

    def lets_in(self, url: str) -> bool:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


def mariadb(url: str) -> pymysql.Connection:
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname, port=parts.port or 0, user=parts.username,
        password=unquote(parts.password or ""), database=parts.path[1:], autocommit=True,
    )  # fmt: skip


def ask(statement: str) -> Callable[[System], None]:
    def apply(system: System) -> None:
        with mariadb(system.url) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    return apply


@pytest.mark.docker("mariadb")
class TestMariaDb(AccountSuite):
    source = "shop-db"
    secrets = frozenset({("db.role", "password")})
    ways: ClassVar = {
        "a row is gone": Way(ask("DELETE FROM refunds")),
        "a table is added": Way(ask("CREATE TABLE mine (x int)")),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("shop", "mariadb")

    def lets_in(self, url: str) -> bool:
        try:
            mariadb(url).close()
        except pymysql.err.OperationalError:
            return False
        return True


def redmine(url: str, method: str, path: str, **more: object) -> httpx.Response:
    parts = urlsplit(url)
    account = (parts.username or "", unquote(parts.password or ""))
    address = f"http://{parts.hostname}:{parts.port}/{path}"
    return httpx.request(method, address, auth=account, timeout=60, json=more or None)


def note(system: System) -> None:
    [first, *_] = redmine(system.url, "GET", "issues.json").json()["issues"]
    answer = redmine(system.url, "PUT", f"issues/{first['id']}.json", issue={"notes": "mine"})
    assert answer.status_code in (200, 204), answer.text


@pytest.mark.docker("redmine")
class TestRedmine(AccountSuite):
    source = "tracker"
    secrets = frozenset({("token", "digest"), ("user", "password_digest")})
    ways: ClassVar = {"a comment is written": Way(note)}

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("helpdesk", "redmine")

    def lets_in(self, url: str) -> bool:
        return redmine(url, "GET", "users/current.json").status_code == 200


# ---------------------------------------------------------------- feeds


def move(*arguments: str) -> Callable[[System], None]:
    """A push of refs that a fresh clone names, or of a commit that it makes."""

    def apply(system: System) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run = ("git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example")
            subprocess.run([*run, "clone", "-q", system.url, "."], check=True)
            subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", "mine"], check=True)
            subprocess.run([*run, "push", "-q", "origin", *arguments], check=True)

    return apply


@pytest.mark.docker("git")
class TestGitFeed(FeedSuite):
    source = "origin"
    changes: ClassVar = {
        "a tag is pushed": Change(move("origin/main:refs/tags/mine"), move(":refs/tags/mine")),
        "a commit is pushed": Change(move("HEAD:refs/heads/mine"), move(":refs/heads/mine")),
        "two refs are pushed": Change(
            move("HEAD:refs/heads/one", "HEAD:refs/tags/two"),
            move(":refs/heads/one", ":refs/tags/two"),
        ),
    }
    losses: ClassVar = {
        "a ref is moved beside a push": lambda system: shutil.copyfile(
            system.place / "refs" / "heads" / "main", system.place / "refs" / "heads" / "hidden"
        ),
        "what the server kept of a push is gone": lambda system: shutil.rmtree(
            next((system.folder / "course").glob("*.after"))
        ),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("repo", "git")


def as_postgres_owner(statement: str) -> Callable[[System], None]:
    def apply(system: Any) -> None:
        with system._running().admin() as admin:
            admin.execute(statement)

    return apply


@pytest.mark.docker("postgres")
class TestPostgresFeed(FeedSuite):
    """Changes of rows: states between two changes of definitions are left open, with the cause."""

    source = "shop-db"
    changes: ClassVar = {
        "a role is added": Change(
            execute("INSERT INTO roles VALUES ('auditor', 'Reads all')"),
            execute("DELETE FROM roles WHERE name = 'auditor'"),
        ),
        "somebody is an admin": Change(
            execute("UPDATE staff SET role = 'admin' WHERE id = 4"),
            execute("UPDATE staff SET role = 'support' WHERE id = 4"),
        ),
    }
    losses: ClassVar = {
        "the log is no longer kept": as_postgres_owner(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
        ),
        "the database is exchanged": lambda system: system.reset(),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("shop", "postgres")


def as_mariadb_owner(*statements: str) -> Callable[[System], None]:
    def apply(system: Any) -> None:
        with system._running().admin() as admin:
            for statement in statements:
                admin.query(statement)

    return apply


@pytest.mark.docker("mariadb")
class TestMariaDbFeed(FeedSuite):
    """Changes of rows: states between two changes of definitions are left open, with the cause."""

    source = "shop-db"
    changes: ClassVar = {
        "a role is added": Change(
            ask("INSERT INTO roles VALUES ('auditor', 'Reads all')"),
            ask("DELETE FROM roles WHERE name = 'auditor'"),
        ),
        "somebody is an admin": Change(
            ask("UPDATE staff SET role = 'admin' WHERE id = 4"),
            ask("UPDATE staff SET role = 'support' WHERE id = 4"),
        ),
    }
    losses: ClassVar = {
        "the log is begun anew": as_mariadb_owner("RESET MASTER"),
        "a table is made beside the log": as_mariadb_owner(
            "SET sql_log_bin = 0", "CREATE TABLE `shop_db`.hidden (x int)"
        ),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("shop", "mariadb")

    def test_a_reset_under_it_is_never_a_run_in_which_nothing_was_put_back(
        self, system: System
    ) -> None:
        """A reset is in the log like anything else: rows, then the password, a commit each."""
        with FeedRun(system, self.source) as run:
            run.make("a role is added", self.changes["a role is added"])
            system.reset()
            if not run.gap():
                run.expected += [None, run.scan().digest()]
                run.check()
