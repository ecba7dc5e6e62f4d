"""The server of the orders, with the evaluator's way to it."""

from __future__ import annotations

from statediff.meta.bench.databases import only_orders
from statediff.sandbox.postgres import PostgresSystem
from statediff.sources.postgres import PostgresSource


class OrdersServer(PostgresSystem):
    """A PostgreSQL server whose one type is `order`."""

    @property
    def reader_url(self) -> str:
        """The evaluator's own account, over the server's socket."""
        return self._running().reader_url

    def orders(self) -> PostgresSource:
        """The orders, and nothing else of the database."""
        return PostgresSource("bench", self.reader_url, only_orders)
