"""An agent that knows nothing but tools: it refunds the returned lines of an order by MCP."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client

ORDER = json.loads(os.environ["STATEDIFF_INPUTS"])["order"]
COLUMNS = "order_id, to_method_id, cents, reason, by_staff_id, created_at"


async def told(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text
    if result.is_error:
        raise SystemExit(f"{tool}: {text}")
    return json.loads(text)


async def main(how: str) -> int:
    async with Client(os.environ["STATEDIFF_MCP_URL"]) as client:
        if how == "own":
            return int(await told(client, "refund"))
        if how == "clumsy":
            await client.call_tool("shop_db_drop_everything", {"really": True})
            await client.call_tool("shop_db_query", {"statement": "SELECT 1"})
            await client.call_tool("shop_db_query", {"sql": "DELETE FROM customers"})
        facts = (
            await told(
                client,
                "shop_db_query",
                sql="SELECT o.paid_with, c.email, (SELECT value FROM settings WHERE name ="
                " 'business_time') AS now, (SELECT SUM(quantity * unit_cents) FROM order_lines"
                f" WHERE order_id = {ORDER} AND returned_at IS NOT NULL) AS cents,"
                " (SELECT by_staff_id FROM approvals WHERE order_id = o.id LIMIT 1) AS approver"
                f" FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.id = {ORDER}",
            )
        )["rows"][0]
        cents = facts["cents"]
        values = f"{ORDER}, {facts['paid_with']}, {cents}, 'returned', {facts['approver']}"
        values += f", '{facts['now']}'"
        await told(
            client,
            "shop_db_execute",
            statements=[f"INSERT INTO refunds ({COLUMNS}) VALUES ({values})"],
        )
        await told(
            client,
            "outbox_send",
            sender="care@hearthside.example",
            to=[facts["email"]],
            subject=f"Your refund for order {ORDER}",
            body="It is on its way.",
        )
    return cents


refunded = asyncio.run(main((sys.argv[1:] or ["careful"])[0]))
Path(os.environ["STATEDIFF_ANSWER"]).write_text(json.dumps({"refunded_cents": refunded}))
