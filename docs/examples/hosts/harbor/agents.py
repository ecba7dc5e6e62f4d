"""Agents that answer from a script."""

from typing import Any, ClassVar

from harbor.agents.base import BaseAgent


class Scripted(BaseAgent):
    """Runs one command in the environment: `--agent-kwarg does=careful`."""

    commands: ClassVar[dict[str, str]] = {
        "careful": "sed -i '0,/open/s//closed/' /app/app.json",
        "careless": "sed -i 's/open/closed/g' /app/app.json",
        "by-sql": """python3 -c "
import sqlite3
shop = sqlite3.connect('SHOP')
shop.execute('update ticket set status = \\'closed\\' where id = 7')
shop.commit()" """,
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
