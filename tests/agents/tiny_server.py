"""An MCP server on standard input with nothing but the standard library, so that it starts fast."""

import json
import os
import sys

TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {}}}
    for name in ("add", "environment", "crash")
]


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
            answer = {"content": [{"type": "text", "text": said}]}
        case other:
            refusal = {"code": -32601, "message": f"no method {other}"}
            tell(id=asked["id"], error=refusal)
            continue
    tell(id=asked["id"], result=answer)
