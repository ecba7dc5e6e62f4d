"""Agents that answer from a script."""

import shlex
from typing import Any, ClassVar

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities

BY_TOOLS = """import asyncio
from mcp.client import Client
REFUND = ('INSERT INTO refunds (order_id, to_method_id, cents, reason, by_staff_id, created_at) '
    "SELECT id, paid_with, 3900, 'returned', 2, '2026-03-16 10:30:00' FROM orders WHERE id = 1009")
LETTER = dict(sender='care@hearthside.example', to=['nora.lindqvist@post.example'],
    subject='Your refund', body='39.00 EUR are on their way.')
async def act():
    async with Client('http://127.0.0.1:8765/mcp') as tools:
        print(await tools.call_tool('shop_db_execute', dict(statements=[REFUND])))
        print(await tools.call_tool('outbox_send', LETTER))
asyncio.run(act())
"""
ACT = (
    f". /opt/statediff/env; python -c {shlex.quote(BY_TOOLS)} && "
    "echo '{\"refunded_cents\": 3900}' > $STATEDIFF_ANSWER"
)


class Scripted(BaseAgent):
    """Runs one command in the environment: `--agent-kwarg does=careful`."""

    capabilities = AgentCapabilities(mcp_servers=True)
    commands: ClassVar[dict[str, str]] = {
        "careful": "sed -i '0,/open/s//closed/' /app/app.json",
        "careless": "sed -i 's/open/closed/g' /app/app.json",
        "by-sql": """python3 -c "
import sqlite3
shop = sqlite3.connect('SHOP')
shop.execute('update ticket set status = \\'closed\\' where id = 7')
shop.commit()" """,
        "by-tools": ACT,
        "cut-off": "echo '{\"user\": []}' > /app/app.json",
    }

    def __init__(self, *given: Any, does: str, shop: str = "", **named: Any) -> None:
        super().__init__(*given, **named)
        self.command = self.commands[does].replace("SHOP", shop)

    @staticmethod
    def name() -> str:
        """Its name in results."""
        return "scripted"

    def version(self) -> str:
        """Of the script."""
        return "1"

    async def setup(self, environment: Any) -> None:
        """Nothing is installed."""

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        """Act."""
        await environment.exec(self.command)
