"""Forty secrets go through every door of a run, and none is in any file that it leaves behind.

But for what a bundle does not show, which lies beside it for its owner only and goes nowhere else.
"""

from __future__ import annotations

import base64
import json
import shutil
import stat
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from statediff.evidence.package import BESIDE
from statediff.suite.artifacts import CopyPlace
from tests.agents.chat_server import Step, speaking
from tests.agents.test_otel import spans as exported
from tests.agents.test_otel import tool
from tests.cli.conftest import Call

SECRETS: dict[str, str] = {
    # HTTP
    "query": "q-Zk81hYw2Lr", "query token": "at7Gh20sLmQx", "google": "AIza" + "Qw3rTy81" * 4,
    "json": "correct horse 7 battery", "nested": "cs_93kfLw20aPzm", "form": "f0rm&p4ss word",
    "form token": "ftk58Wmz1Qpd", "multipart": "mu1tip4rt pass", "basic": "b4sicP4ssword",
    "bearer": "bea83rer19tokenXYZ", "cookie": "c00kie81827abc", "header": "hk29Xapi00key1",
    "userinfo": "us3rinf0pw", "key as account": "live81kf93jskeqp",
    # SQL
    "postgres": "pgPw8812x", "mysql": "myPw7723y", "role": "r0lePass99", "identified": "1dentPw55",
    "environment": "envPw4411z", "jdbc": "jdbcPw3366",
    # MCP
    "tool password": "toolPw9090", "tool header": "hd81-tok-7Qp2zzX", "github": "ghp_" + "a1B2" * 9,
    "aws": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz", "slack": "xoxb-" + "1234567890-ab", "pin": "884422",
    # OpenTelemetry
    "span password": "spanPw8181", "span token": "sp4nTok3n77",
    "jwt": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.s1gn4tur3",
    "anthropic": "sk-ant-api03-" + "Zz9" * 8, "aws id": "AKIA" + "IOSFODNN7EXAMPLE",
    "stripe": "sk_live_" + "4eC39HqLyj",
    # the loop around a model
    "model key": "mk-93hfk2LqPz01", "model argument": "modelPw6161",
    "model says": "sk-proj-" + "Aa1" * 8,
    "model answers": "answ3rTok3n5",
    # what a program prints and hands in
    "pem": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "stderr": "stderrPw7171",
    "npm": "npm_" + "a1b2c3" * 6,
    "answer": "handedPw5151", "own log": "ownLogPw4141", "argument": "argvPw3131",
}  # fmt: skip

HTTP = """\
import base64, http.client, json, os, sys
from urllib.parse import quote, urlsplit
S = json.load(open(sys.argv[1]))
place = urlsplit(os.environ["STATEDIFF_TRACKER_URL"])
def ask(method, path, body=None, **headers):
    line = http.client.HTTPConnection(place.hostname, place.port)
    line.request(method, path, body, {n.replace("_", "-"): v for n, v in headers.items()})
    line.getresponse().read()
basic = lambda text: "Basic " + base64.b64encode(text.encode()).decode()
ask("GET", f"/x?api_key={S['query']}&access_token={S['query token']}&key={S['google']}&page=2")
body = {"login": "ada", "password": S["json"], "app": {"clientSecret": S["nested"], "n": 1}}
ask("POST", "/x", json.dumps(body), Content_Type="application/json")
form = f"user=ada&password={quote(S['form'])}&csrf_token={S['form token']}&note=hello"
ask("POST", "/x", form, Content_Type="application/x-www-form-urlencoded")
part = 'Content-Disposition: form-data; name="password"'
ask("POST", "/x", f"--b\\r\\n{part}\\r\\n\\r\\n{S['multipart']}\\r\\n--b--\\r\\n",
    Content_Type="multipart/form-data; boundary=b")
ask("GET", "/x", Authorization=basic("ada:" + S["basic"]))
ask("GET", "/x", Authorization="Bearer " + S["bearer"], Cookie="s=" + S["cookie"])
ask("GET", "/x?to=" + quote(f"https://ada:{S['userinfo']}@example.com/"), X_Api_Key=S["header"])
ask("GET", "/x", Authorization=basic(S["key as account"] + ":"))
print("-----BEGIN PRIVATE KEY-----\\n" + S["pem"] + "\\n-----END PRIVATE KEY-----")
print("the work is done")
print("npm token is", S["npm"], "and form", S["form token"])
print("password:", S["stderr"], file=sys.stderr)
json.dump({"password": S["answer"], "done": True}, open(os.environ["STATEDIFF_ANSWER"], "w"))
"""
TOOLS = """\
import asyncio, json, os, sys
from mcp import Client
S = json.load(open(sys.argv[1]))
SQL = [f"-- postgresql://ada:{S['postgres']}@db/x", f"-- mysql://root:{S['mysql']}@h:3306/x",
       f"ALTER ROLE ada PASSWORD '{S['role']}'", f"CREATE USER b IDENTIFIED BY '{S['identified']}'",
       f"-- PGPASSWORD={S['environment']} psql", f"-- jdbc:x://h/y?user=a&password={S['jdbc']}"]
async def main():
    async with Client(os.environ["STATEDIFF_MCP_URL"]) as client:
        for sql in SQL:
            await client.call_tool("shop_db_query", {"sql": sql})
        given = {"password": S["tool password"], "headers": {"Authorization": S["tool header"]},
                 "remote": f"push with {S['github']} now", "pin": int(S["pin"]),
                 "file": "[default]\\naws_secret_access_key = " + S["aws"], "hook": S["slack"]}
        await client.call_tool("no_such_tool", given)
asyncio.run(main())
open(os.environ["STATEDIFF_TRACE"], "w").write(json.dumps(
    {"tool": "login", "arguments": {"user": "ada", "password": S["own log"]}}) + "\\n")
"""


def spans() -> Any:
    s = SECRETS
    told = {
        "gen_ai.tool.call.arguments": json.dumps({"user": "ada", "password": s["span password"]}),
        "gen_ai.tool.call.result": f'token="{s["span token"]}" {s["jwt"]}',
    }
    other = {
        "gen_ai.tool.call.arguments": {"text": f"{s['anthropic']} {s['aws id']} {s['stripe']}"},
        "gen_ai.tool.call.result": "ok",
    }
    return exported(tool(1, "login", "a", told=told), tool(2, "note", "b", told=other))


def left_in(folder: Path) -> dict[str, set[str]]:
    """Which secrets are in which files, in any of the forms in which they were sent."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.endswith(BESIDE):
            continue
        data = path.read_bytes() + str(path).encode()
        for name, secret in SECRETS.items():
            coded = base64.b64encode(f"ada:{secret}".encode())
            forms = (secret.encode(), quote(secret).encode(), coded)
            if any(form in data for form in forms):
                found.setdefault(name, set()).add(str(path.relative_to(folder)))
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_no_file_that_runs_leave_behind_holds_one_of_forty_secrets(
    statediff: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(SECRETS) >= 40
    inputs = tmp_path.parent / f"{tmp_path.name}-given"
    inputs.mkdir()
    given = {"web.py": HTTP, "tools.py": TOOLS, "secrets.json": json.dumps(SECRETS),
             "spans.json": json.dumps(spans())}  # fmt: skip
    for name, text in given.items():
        (inputs / name).write_text(text)

    def program(name: str, *more: str) -> str:
        return " ".join([sys.executable, str(inputs / name), str(inputs / "secrets.json"), *more])

    shop = ("run", "shop/refund-returned-order", "--out")
    http = program("web.py", "--api-key", SECRETS["argument"])
    done = statediff(
        "run", "helpdesk/reassign-with-comment", "--agent-cmd", http, "--record-http", "--out", "h"
    )
    assert done.code in (1, 3), done.err
    done = statediff(*shop, "m", "--agent-mcp", program("tools.py"))
    assert done.code in (1, 3), done.err
    argument = {"sql": f"SELECT 1 -- password={SECRETS['model argument']}"}
    script = [
        Step(f"My key is {SECRETS['model says']}", [("shop_db_query", json.dumps(argument))]),
        Step(json.dumps({"refunded_cents": 0, "access_token": SECRETS["model answers"]})),
    ]
    monkeypatch.setenv("OPENAI_API_KEY", SECRETS["model key"])
    with speaking(*script) as server:
        done = statediff(*shop, "l", "--base-url", server.url, "--model", "m")
        assert done.code in (1, 3), done.err
        assert any(SECRETS["model key"] in key for key in server.keys)
    states = ("--before", "a.json", "--after", "b.json", "--trace", str(inputs / "spans.json"))
    done = statediff("judge", "c.yaml", *states, "--out", "o")
    assert done.code in (0, 1), done.err
    for name in ("h", "m", "l", "o"):
        statediff("report", name)
    trial = next((tmp_path / "h").rglob("bundle"))
    statediff("keygen", "ada.pem", "--name", "Ada")
    assert statediff("sign", str(trial), "--key", "ada.pem", "--out", "sealed.zip").code == 0
    run = trial.parents[2]
    for form in ("junit", "otlp", "turns"):
        assert statediff("export", str(run), "--as", form, "--out", f"h.{form}").code == 0
    assert CopyPlace(f"file://{tmp_path}/copies").push(run).trials == 1
    assert left_in(tmp_path) == {}
    assert not [*(tmp_path / "copies").rglob(f"*{BESIDE}")]
    beside = [*tmp_path.rglob(f"*{BESIDE}")]
    assert len(beside) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in beside} == {0o600}

    for agent in tmp_path.rglob("agent.json"):
        assert json.loads(agent.read_text())["exit_code"] in (0, None), agent.read_text()
    # The recording is there all the same: equal secrets are equal, and the rest is as it was.
    (lines,) = (tmp_path / "h").rglob("trace.jsonl")
    calls = [json.loads(line) for line in lines.read_text().splitlines()[1:]]
    assert sum(each["tool"].startswith("tracker ") for each in calls) == 8, calls
    assert "page" in lines.read_text()
    assert "note=hello" in lines.read_text()
    assert "no_such_tool" in next((tmp_path / "m").rglob("trace.jsonl")).read_text()
    assert "SELECT 1 -- password=secret-" in next((tmp_path / "l").rglob("trace.jsonl")).read_text()
    (agent,) = (tmp_path / "h").rglob("agent.json")
    assert "the work is done" in agent.read_text()
    assert len(left_in(inputs)) == len(SECRETS)
    shutil.rmtree(inputs)
