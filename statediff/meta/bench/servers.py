"""The server of the orders, with the evaluator's way to it."""

from __future__ import annotations

from statediff.meta.bench.databases import only_orders
from statediff.sandbox.postgres import PostgresSystem
from statediff.sources.postgres import PostgresSource
from statediff.sources.postgres_feed import PostgresFeed


class OrdersServer(PostgresSystem):
    """A PostgreSQL server whose one type is `order`."""

    @property
    def reader_url(self) -> str:
        """The evaluator's own account, over the server's socket."""
        return self._running().reader_url

    def orders(self) -> PostgresSource:
        """The orders, and nothing else of the database."""
        return PostgresSource("bench", self.reader_url, only_orders)

    def observed(self) -> tuple[PostgresSource, PostgresFeed]:
        """The whole database as a trial reads it, and what watches it."""
        server = self._running()
        source = PostgresSource("bench", self.reader_url, None, server.own)
        return source, PostgresFeed(source, lambda seconds: server.apart(seconds=seconds))
