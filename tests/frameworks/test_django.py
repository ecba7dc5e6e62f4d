"""Django with admin, sessions and logins, over HTTP: `use: django@1` hides nothing."""

# ruff: noqa: E501 - a clause, or a form, is read in one line

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.frameworks.trying import Desk, Task
from tests.servers import free_port, postgres

pytestmark = [pytest.mark.servers("django"), pytest.mark.slow]
SITE = str(Path(__file__).with_name("site_django.py"))
USE = "use: django@1\ninputs: {django_user: 2}\n"
LOGGED = """  - {id: log, create: django_admin_log, where: it.user == 2 and it.object_id == "%s"
      and it.action_time - run.start >= -1 and it.action_time - run.end <= 1, count: {max: 1}}
"""
STAMPED = """  - {id: stamp, update: admin_ticket, where: it.id == 2, fields: [updated_at],
      that: new.updated_at - run.start >= -1 and new.updated_at - run.end <= 1}
"""
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
    "another-email",
]
CLEO = {"username": "cleo", "email": "cleo@desk.example", "is_active": "on", "groups": [1], "date_joined_0": "2026-01-05", "date_joined_1": "10:00:00"}  # fmt: skip
TASKS = {  # what is required, the noise, and two ways: the desk's own page, and the admin
    "close": ("{id: closed, update: admin_ticket, where: it.id == 2, set: {status: closed}}", STAMPED + LOGGED % 2,
              ("tickets/2/", {"status": "closed"}),
              ("admin/admin/ticket/2/change/", {"subject": "Sound", "status": "closed", "customer": 1})),
    "email": ("{id: moved, update: admin_customer, where: it.id == 2, set: {email: b@new.example}}", LOGGED % 2,
              ("customers/2/", {"email": "b@new.example"}),
              ("admin/admin/customer/2/change/", {"name": "bob", "email": "b@new.example"})),
    "join": ("{id: joined, create: auth_user_groups, where: it.user == 5 and it.group == 1}", LOGGED % 5,
             ("groups/1/", {"user": "cleo"}), ("admin/auth/user/5/change/", CLEO)),
}  # fmt: skip


def act(base: str, page: str, form: dict[str, object]) -> None:
    """The clerk logs in by Django's own form, and sends the page's."""
    jar = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    opener.open(f"{base}admin/login/").read()
    login: dict[str, object] = {"username": "clerk", "password": "pw"}
    for path, said in (("admin/login/", login), (page, form)):
        token = next(each.value for each in jar if each.name == "csrftoken")
        data = urlencode({**said, "csrfmiddlewaretoken": token}, doseq=True).encode()
        assert "Please correct the error" not in opener.open(base + path, data).read().decode()


Database = tuple[str, Callable[[], object]]


def _sqlite(folder: Path) -> Iterator[Database]:
    database, base = folder / "desk.sqlite", folder / "base.sqlite"
    subprocess.run([sys.executable, SITE, str(base), "make"], check=True)
    yield str(database), partial(shutil.copyfile, base, database)


def _postgres(_: Path) -> Iterator[Database]:
    psycopg = pytest.importorskip("psycopg")
    with postgres() as port:
        url = f"postgresql://postgres@127.0.0.1:{port}/"
        with psycopg.connect(f"{url}postgres", autocommit=True) as db:
            db.execute("CREATE DATABASE base")
            subprocess.run([sys.executable, SITE, f"{url}base", "make"], check=True)

            def renew() -> None:
                db.execute("DROP DATABASE IF EXISTS desk WITH (FORCE)")
                db.execute("CREATE DATABASE desk TEMPLATE base")

            yield f"{url}desk", renew


@pytest.fixture(scope="module", params=[_sqlite, _postgres], ids=["sqlite", "postgres"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """The address of the site, its database, and what puts it back."""
    for database, renew in request.param(tmp_path_factory.mktemp("django")):
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
            yield base, database, renew
        finally:
            server.terminate()
            server.wait(30)


@pytest.mark.parametrize("name", TASKS)
def test_right_ways_match_and_harm_diverges(
    name: str, served: tuple[str, str, Callable[[], object]], tmp_path: Path
) -> None:
    base, database, renew = served
    required, noise, *ways = TASKS[name]
    harms = {each: partial(urllib.request.urlopen, f"{base}harm/{each}/", b"") for each in HARMS}
    task = Task(required, noise, [partial(act, base, *way) for way in ways], harms)
    desk = Desk(f"db={database}", renew, tmp_path)
    desk.try_by_hand(task, USE)
    desk.try_drafted(task)
