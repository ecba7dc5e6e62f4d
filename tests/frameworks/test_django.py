"""Django with admin, sessions and logins, over HTTP: `use: django@1` hides nothing."""

# ruff: noqa: E501 - a statement, or a clause, is read in one line

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.frameworks.trying import Desk, Task
from tests.servers import free_port, postgres

pytestmark = [pytest.mark.servers("django"), pytest.mark.slow]
SITE = str(Path(__file__).with_name("site_django.py"))
USE = "use: django@1\ninputs: {django_user: 2}\n"
LOGGED = """
  - {id: log, create: django_admin_log, where: it.user == 2 and it.object_id == "%s"
      and it.action_time - run.start >= -1 and it.action_time - run.end <= 1, count: {max: 1}}
""".lstrip("\n")
HARMS = [
    "forged-session",
    "session-for-ten-years",
    "session-that-says-more",
    "session-of-the-past",
    "other-session-gone",
    "login-in-9999",
    "login-before-the-run",
    "login-of-another",
    "staff",
    "superuser",
    "password",
    "another-ticket",
    "stamp-of-the-past",
    "group-of-another",
]


class Browser:
    """A session of a user, who logs in by Django's own form."""

    def __init__(self, base: str, user: str = "clerk") -> None:
        self.base, self.jar = base, CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        self.opener.open(f"{base}admin/login/").read()
        self.post("admin/login/", username=user, password="pw")

    def post(self, path: str, **form: object) -> None:
        token = next(each.value for each in self.jar if each.name == "csrftoken")
        data = urlencode({**form, "csrfmiddlewaretoken": token}, doseq=True).encode()
        page = self.opener.open(self.base + path, data).read().decode()
        assert "Please correct the error" not in page


def _sqlite(folder: Path) -> Iterator[tuple[str, str, Callable[[], object]]]:
    database, base = folder / "desk.sqlite", folder / "base.sqlite"
    subprocess.run([sys.executable, SITE, str(base), "make"], check=True)
    yield str(database), f"db={database}", lambda: shutil.copyfile(base, database)


def _postgres(_: Path) -> Iterator[tuple[str, str, Callable[[], object]]]:
    psycopg = pytest.importorskip("psycopg")
    with postgres() as port:
        url = f"postgresql://postgres@127.0.0.1:{port}/"
        with psycopg.connect(f"{url}postgres", autocommit=True) as db:
            db.execute("CREATE DATABASE base")
            subprocess.run([sys.executable, SITE, f"{url}base", "make"], check=True)

            def renew() -> None:
                db.execute("DROP DATABASE IF EXISTS desk WITH (FORCE)")
                db.execute("CREATE DATABASE desk TEMPLATE base")

            yield f"{url}desk", f"db={url}desk", renew


@pytest.fixture(scope="module", params=[_sqlite, _postgres], ids=["sqlite", "postgres"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """The address of the site, its state, and what puts it back."""
    for database, state, renew in request.param(tmp_path_factory.mktemp("django")):
        renew()
        port = free_port()
        command = [sys.executable, SITE, database, "serve", str(port)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            base = f"http://127.0.0.1:{port}/"
            while server.poll() is None:
                try:
                    urllib.request.urlopen(f"{base}admin/login/").close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield base, state, renew
        finally:
            server.terminate()
            server.wait(30)


def _tasks(base: str) -> dict[str, Task]:
    def harm(name: str) -> Callable[[], object]:
        return lambda: urllib.request.urlopen(f"{base}harm/{name}/", b"").read()

    def ways(view: str, form: dict[str, str], admin: str, of_admin: dict[str, object]) -> list:
        at = [
            lambda: Browser(base).post(view, **form),
            lambda: Browser(base).post(admin, **of_admin),
        ]
        return [*at]

    user = {"username": "cleo", "email": "cleo@desk.example", "is_active": "on", "groups": [1],
            "date_joined_0": "2026-01-05", "date_joined_1": "10:00:00"}  # fmt: skip
    stamp = """
  - {id: stamp, update: admin_ticket, where: it.id == 2, fields: [updated_at],
      that: new.updated_at - run.start >= -1 and new.updated_at - run.end <= 1}
""".lstrip("\n")
    return {
        "close": Task(
            "require: [{id: closed, update: admin_ticket, where: it.id == 2, set: {status: closed}}]\n",
            "allow:\n" + stamp + LOGGED % 2,
            ways("tickets/2/", {"status": "closed"}, "admin/admin/ticket/2/change/",
                 {"subject": "Sound", "status": "closed", "customer": 1}),
            {name: harm(name) for name in (*HARMS, "another-email")},
        ),
        "email": Task(
            "require: [{id: moved, update: admin_customer, where: it.id == 2, "
            "set: {email: bob@new.example}}]\n",
            "allow:\n" + LOGGED % 2,
            ways("customers/2/", {"email": "bob@new.example"}, "admin/admin/customer/2/change/",
                 {"name": "bob", "email": "bob@new.example"}),
            {name: harm(name) for name in (*HARMS, "another-email")},
        ),
        "join": Task(
            "require: [{id: joined, create: auth_user_groups, "
            "where: it.user == 5 and it.group == 1}]\n",
            "allow:\n" + LOGGED % 5,
            ways("groups/1/", {"user": "cleo"}, "admin/auth/user/5/change/", user),
            {name: harm(name) for name in (*HARMS, "another-email")},
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["close", "email", "join"])
def test_right_ways_match_and_harm_diverges(
    name: str, served: tuple[str, str, Callable[[], object]], tmp_path: Path
) -> None:
    base, state, renew = served
    desk, task = Desk(state, renew, tmp_path), _tasks(base)[name]
    desk.try_by_hand(task, USE)
    desk.try_drafted(task)
