"""The server of the orders, with the evaluator's way to it."""

from __future__ import annotations

import contextlib

from statediff_containers.engine import Container, connect
from statediff_containers.processes import group_of
from statediff_postgres.catalogue import Catalogue
from statediff_postgres.feed import PostgresFeed
from statediff_postgres.sandbox import PostgresSystem
from statediff_postgres.source import PostgresSource

from statediff.model.schema import Schema
from statediff.model.state import State
from statediff_lab.bench.orders import only_orders
from statediff_lab.bench.registry import NotRun


class _Orders(PostgresSource):
    """A source that leaves out tables it finds beside those it was shown before: their copy."""

    def schema_after(self, like: State | None, catalogue: Catalogue) -> Schema:
        return super().schema_after(None, catalogue) if like is None else like.schema


class OrdersServer(PostgresSystem):
    """A PostgreSQL server whose one type is `order`."""

    @property
    def reader_url(self) -> str:
        """The evaluator's own account, over the server's socket."""
        return self._running().reader_url

    def orders(self, *, reads_all: bool = False) -> PostgresSource:
        """The orders, and nothing else of the database."""
        return _Orders("bench", self.reader_url, only_orders, reads_all=reads_all)

    def processor_seconds(self) -> float:
        """The server's use of all cores so far. `NotRun` where the kernel does not tell."""
        box = self._running().container
        if not isinstance(box, Container):
            raise NotRun("the server is no container")
        container = box.id
        pid = int(connect().api.inspect_container(container)["State"]["Pid"])
        for file, unit in (("cpuacct.usage", 1e9), ("cpu.stat", 1e6)):
            with contextlib.suppress(OSError, ValueError):
                told = (group_of(pid, container, "cpuacct") / file).read_text("ascii")
                return int(told.removeprefix("usage_usec ").split()[0]) / unit
        raise NotRun("the kernel does not tell the server's processor time")

    def observed(self) -> tuple[PostgresSource, PostgresFeed]:
        """The whole database as a trial reads it, and what watches it."""
        server = self._running()
        source = PostgresSource("bench", self.reader_url, None, server.own)
        return source, server.feed(source)

    def whole(self) -> PostgresSource:
        """The same database, of which every row is read each time."""
        own = self._running().own
        return PostgresSource("bench", self.reader_url, None, own, reads_all=True)
