"""An MCP server on standard input with nothing but the standard library, so that it starts fast."""

import json
import os
import smtplib
import sqlite3
import sys

TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {}}}
    for name in ("add", "environment", "crash", "refund")
]


def refund() -> str:
    """A refund of order 1009 and its message, with the sandbox that the environment names."""
    db = sqlite3.connect(os.environ["SHOP"].removeprefix("sqlite:///"))
    db.execute(
        "INSERT INTO refunds (order_id, to_method_id, cents, reason, by_staff_id, created_at)"
        " VALUES (1009, 117, 3900, 'returned', 2, '2026-03-16 10:30:00')"
    )
    db.commit()
    db.close()
    host, _, port = os.environ["MAIL"].removeprefix("smtp://").partition(":")
    sender, to = "care@hearthside.example", "nora.lindqvist@post.example"
    with smtplib.SMTP(host, int(port)) as server:
        server.sendmail(sender, to, f"From: {sender}\nTo: {to}\nSubject: refund\n\nDone.\n")
    return "3900"


def tell(**answer: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **answer}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer: dict[str, object]
    match asked["method"]:
        case "initialize":
            answer = {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tiny", "version": "1"},
            }
        case "tools/list":
            answer = {"tools": TOOLS}
        case "tools/call":
            sys.stderr.write("complaint \x1b[31m\n")
            sys.stderr.flush()
            if asked["params"]["name"] == "crash":
                os._exit(3)
            said = os.environ.get("UPSTREAM_SECRET", "(none)")
            if asked["params"]["name"] == "refund":
                said = refund()
            answer = {"content": [{"type": "text", "text": said}]}
        case other:
            refusal = {"code": -32601, "message": f"no method {other}"}
            tell(id=asked["id"], error=refusal)
            continue
    tell(id=asked["id"], result=answer)
