"""A MariaDB whose feed is attached while statements run, and what the feed then told of them."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pymysql
from statediff_mariadb.sandbox import MariaDbSystem

from statediff.model.state import MemoryChunks
from statediff.model.values import Digested, Unobserved, same
from statediff.packs import PackSource


def now():
    return datetime.now(UTC)


def make_system(folder, ddl, seed):
    """A server of its own with such a database."""
    folder.mkdir(exist_ok=True)
    files = {"ddl": folder / "ddl.sql", "seed": folder / "seed.sql"}
    files["ddl"].write_text(ddl)
    files["seed"].write_text(seed)
    system = MariaDbSystem(PackSource("store", "mariadb", None, files), (), folder / "own")
    system.start()
    return system


def connection(system):
    """One of the agent's."""
    parts = urlsplit(system.url)
    return pymysql.connect(
        host=parts.hostname, port=parts.port, user=parts.username, password=parts.password,
        database="store", charset="utf8mb4", autocommit=True, ssl_disabled=True,
    )  # fmt: skip


class Run:
    """One run: the state before, whole scans wherever `scan` is called, and the feed's word."""

    def __init__(self, system):
        self.system = system
        (self.source,) = system.sources()
        (self.feed,) = system.feeds()
        self.store = MemoryChunks()
        self.feed.attach()
        self.before = self.source.read(self.store, now, None).state
        self.scans = [self.before]

    def agent(self, *statements):
        """Each statement of the agent's on a connection that commits it; errors are told."""
        refused = []
        with closing(connection(self.system)) as line, line.cursor() as cursor:
            for statement in statements:
                try:
                    cursor.execute(statement)
                except pymysql.Error as error:
                    refused.append((statement, error.args[0]))
        return refused

    def owner(self, *statements):
        with self.system._running().admin() as line:
            for statement in statements:
                line.query(statement)

    def scan(self):
        """The state now, read whole."""
        state = self.source.read(self.store, now, self.before).state
        if state.digest() != self.scans[-1].digest():
            self.scans.append(state)
        return state

    def end(self):
        """The state that the feed established; the feed is let go of."""
        try:
            return self.feed.establish(self.store, now, self.before)
        finally:
            self.feed.detach()


def differing(told, scanned):
    """The types of which the feed said something else than the scan; what it leaves open is not.

    Also the types it left open, though the scan read them.
    """
    wrong, untold = set(), set()
    for name in told.tables.keys() | scanned.tables.keys():
        one, other = told.tables.get(name), scanned.tables.get(name)
        if one is None:
            wrong.add(name)
        elif not one.enumeration.is_complete:
            if other is None or other.enumeration.is_complete:
                untold.add(name)
        elif other is None or one.type != other.type or one.enumeration != other.enumeration:
            wrong.add(name)
        elif one.chunks != other.chunks:
            (untold if _is_open(one, other) else wrong).add(name)
    return wrong, untold


def _is_open(told, scanned):
    rows = dict(scanned.rows())
    own = dict(told.rows())
    return rows.keys() == own.keys() and all(
        same(value, rows[key][name])
        or (isinstance(value, Unobserved) and not isinstance(value, Digested))
        for key, row in own.items() for name, value in row.items()
    )  # fmt: skip
