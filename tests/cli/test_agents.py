"""The ways in, as people use them: which agent, what is said of mistakes, what is recorded."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from statediff import extras
from tests.agents.chat_server import Step, speaking
from tests.agents.test_otel import spans, tool
from tests.cli.conftest import Call, Files

REFUND = "shop/refund-returned-order"
INSERT = (
    "INSERT INTO refunds (order_id, to_method_id, cents, reason, by_staff_id, created_at)"
    " VALUES (1009, 117, 3900, 'returned', 2, '2026-03-16 10:30:00')"
)
MAIL = {
    "sender": "care@hearthside.example", "to": ["nora.lindqvist@post.example"],
    "subject": "Your refund", "body": "It is on its way.",
}  # fmt: skip


def bundle_trace(folder: Path) -> Any:
    (path,) = folder.glob("runs/run-*/trials/*/trace.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_model_is_tried_and_its_cost_kept(statediff: Call, files: Files, tmp_path: Path) -> None:
    script = (
        Step("", [("shop_db_execute", json.dumps({"statements": [INSERT]}))]),
        Step("", [("outbox_send", json.dumps(MAIL))]),
        Step('{"refunded_cents": 3900}'),
    )
    with speaking(*script) as server:
        files.write("agent.yaml", f"{{url: {server.url}, model: m, price_in: 2.50, price_out: 10}}")
        said = statediff("run", REFUND, "--agent", "agent.yaml", "--max-cost", "1", "--json")
    assert said.code == 0, said.err
    assert said.lines[0]["verdict"] == "MATCH"
    (agent,) = tmp_path.glob("runs/run-*/trials/*/agent.json")
    assert json.loads(agent.read_text())["usage"] == {
        "requests": 3, "retries": 0, "tokens_in": 300, "tokens_out": 30, "cost": "0.00105",
    }  # fmt: skip
    head, *calls = bundle_trace(tmp_path)
    assert head["is_complete"]
    assert [call["tool"] for call in calls] == ["shop_db_execute", "outbox_send"]


def test_a_wrong_address_is_a_fault_and_not_the_agents(statediff: Call, files: Files) -> None:
    files.write("agent.yaml", '{url: "http://127.0.0.1:9/v1", model: m}')
    said = statediff("run", REFUND, "--agent", "agent.yaml")
    assert said.code == 4
    assert "check the URL" in said.out
    assert "1 fault" in said.out


def test_old_options_still_run_and_name_the_keys(statediff: Call) -> None:
    said = statediff("run", REFUND, "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert said.code == 4
    assert "--base-url, --model: write `url`, `model` into a file" in said.err


def test_models_of_one_file_are_agents_of_their_own(statediff: Call, files: Files) -> None:
    files.write("agents.yaml", 'url: "http://127.0.0.1:9/v1"\nmodel: [small, large]\n')
    said = statediff("run", REFUND, "--agent", "agents.yaml", "--json")
    assert said.code == 4
    assert [line["agent"] for line in said.lines if "agent" in line] == ["small", "large"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("url: http://x/v1", "`url` and `model` go together"),
        ("command: 'true'\nmodel: m", "`url` and `model` go together"),
        ("{url: x, model: m}", "expected http:// or https://"),
        ("{command: 'true', mcp: 'true'}", "give one of `agent`"),
        ("{mcp: 'true', url: http://x, model: m}", "give one of `agent`"),
        ("name: nobody", "give one of `agent`"),
        ("{command: 'true', stream: true}", "`stream` goes with `url` and `model`"),
        ("{command: 'true', mcp_config: f}", "`mcp_config` goes with `mcp`"),
        ("{mcp: 'true', mcp_config: f}", "f: cannot be read"),
        ("mcp: no-such-program", "is not found"),
        ("{url: http://x, model: m, price_in: cheap}", "expected a number"),
        ("{url: http://x, model: m, key_env: NO_KEY}", "no such variable"),
        ("{command: 'true', isolate: none}", "did you mean `isolation`?"),
        ("{command: 'true', isolation: walls}", "expected one of"),
        ("{mcp: x, record_http: true}", "`record_http` goes with"),
        ("{url: http://x, model: m, record_http: true}", "`record_http` goes with"),
        ("{image: x, record_http: true}", "`record_http` goes with"),
        ("[]", "expected a mapping"),
        ("{url: http://x, model: []}", "found an empty list"),
        ("{command: 'true', name: a b}", "expected a name of letters"),
    ],
)
def test_a_file_that_does_not_name_one_agent_is_refused(
    given: str, complaint: str, statediff: Call, files: Files
) -> None:
    files.write("agent.yaml", given)
    said = statediff("run", REFUND, "--agent", "agent.yaml")
    assert (said.code, complaint in said.err) == (2, True), said.err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--agent-cmd", "true", "--agent", "careful"), "in one way"),
        (("--agent", "agent.yaml", "--agent", "careful"), "stands alone"),
        (("--agent", "agent.yaml", "--agent-cmd", "true"), "stands alone"),
        (("--agent", "none.yaml"), "none.yaml: expected a file, found nothing"),
        (("--agent", "agent.yaml", "--max-cost", "1"), "give both prices"),
        ((), "give the agent as"),
    ],
)
def test_what_does_not_name_one_agent_is_refused(
    options: tuple[str, ...], complaint: str, statediff: Call, files: Files
) -> None:
    files.write("agent.yaml", "{url: http://x, model: m}")
    said = statediff("run", REFUND, *options)
    assert (said.code, complaint in said.err) == (2, True), said.err


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("mcp", ("run", REFUND, "--agent-mcp", "true")),
        ("openai", ("run", REFUND, "--base-url", "http://x", "--model", "m")),
        ("mcp", ("mcp", "shop")),
        ("mcp", ("mcp-proxy", "--config", "f")),
        ("mcp", ("mcp", "shop", "--http", "0", "--json")),
    ],
)
def test_a_missing_extra_is_named(
    package: str, arguments: tuple[str, ...], statediff: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == package else real(name))
    for loaded in [name for name in sys.modules if name.startswith("statediff_hosts.protocols")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    said = statediff(*arguments)
    assert said.code == 2
    assert f"needs {package}; get it with `pip install statediff[agents]`" in said.err + said.out


def test_json_on_standard_output_needs_the_protocol_elsewhere(statediff: Call) -> None:
    for arguments in (("mcp", "shop"), ("mcp-proxy", "--config", "f")):
        said = statediff(*arguments, "--json")
        assert said.code == 2
        assert "--json goes with --http" in said.json["error"]["message"]


# ---------------------------------------------------------------- a person


def shipped(folder: Path) -> str:
    """A shell, as a person would use one, that ships order 1009."""
    path = folder / "shell"
    path.write_text(
        f"#!{sys.executable} -S\nimport os, sqlite3\n"
        "db = sqlite3.connect(os.environ['STATEDIFF_SHOP_DB_URL'].removeprefix('sqlite:///'))\n"
        "db.execute(\"UPDATE orders SET status = 'shipped' WHERE id = 1009\")\ndb.commit()\n"
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_what_a_person_did_drafts_a_contract(statediff: Call, tmp_path: Path) -> None:
    said = statediff(
        "record", "shop", "--shell", "--name", "drafts/ship", "--json",
        env={"SHELL": shipped(tmp_path)},
    )  # fmt: skip
    assert said.code == 0, said.err
    assert said.json["changes"] == 1
    draft = (tmp_path / "contract.yaml").read_text()
    assert "reviewed: false" in draft
    assert 'status: "shipped"' in draft
    assert statediff("check", "contract.yaml").code == 0
    again = statediff("record", "shop", "--shell")
    assert again.code == 2
    assert "exists already" in again.err


def test_enter_ends_a_recording_and_the_end_of_the_input_does_not(
    statediff: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    ended = statediff("record", "shop")
    assert ended.code == 2
    assert "nobody said that the task is done" in ended.err
    assert not (tmp_path / "contract.yaml").exists()
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    done = statediff("record", "shop")
    assert done.code == 0, done.err
    assert "export STATEDIFF_SHOP_DB_URL=sqlite:" in done.err


# ---------------------------------------------------------------- spans

STEPS = """\
contract: notes/close-ticket
version: 1.0.0
owner: support
intent: Close ticket 7 with a call that names it.
inputs: {ticket: 7}
require:
  - id: closed
    update: ticket
    where: it.id == input.ticket
    set: {status: closed}
steps:
  - id: named
    on: close
    that: call.arguments.ticket == input.ticket
"""


def close(call: str | None, arguments: str | None) -> dict[str, Any]:
    told = {} if arguments is None else {"gen_ai.tool.call.arguments": arguments}
    return tool(1, "close", call, told=told)


def test_imported_spans_are_judged_and_missing_arguments_decide_nothing(
    statediff: Call, files: Files
) -> None:
    files.write("c.yaml", STEPS)
    files.write("told.json", spans(close("a", '{"ticket": 7}')))
    files.write("other.json", spans(close("a", '{"ticket": 8}')))
    files.write("untold.json", spans(close("a", None)))
    verdicts = {}
    for name in ("told", "other", "untold"):
        done = statediff(
            "lab", "import", "otel", f"{name}.json", "--out", f"{name}.jsonl", "--json"
        )
        assert done.code == 0, done.err
        for trace in (f"{name}.jsonl", f"{name}.json"):
            said = statediff(
                "judge", "c.yaml", "--before", "a.json", "--after", "b.json", "--trace", trace,
                "--complete-trace", "--json", "--out", f"bundle-{trace}",
            )  # fmt: skip
            verdicts[trace] = said.json["verdict"]
    assert verdicts == {
        "told.jsonl": "MATCH", "told.json": "MATCH",
        "other.jsonl": "DIVERGE", "other.json": "DIVERGE",
        "untold.jsonl": "INCONCLUSIVE", "untold.json": "INCONCLUSIVE",
    }  # fmt: skip
    assert statediff("lab", "import", "otel", "told.json", "--out", "told.jsonl").code == 2
    said = statediff("lab", "import", "otel", "c.yaml", "--out", "x.jsonl")
    assert said.code == 2
    assert "neither OTLP in JSON nor in protobuf" in said.err
    assert statediff("lab", "import", "otel").code == 2
    assert statediff("lab", "import", "tau2", "told.json").code == 2


@pytest.mark.slow
def test_an_agent_that_speaks_http_by_itself_is_recorded(statediff: Call, tmp_path: Path) -> None:
    said = statediff(
        "run", "helpdesk/reassign-with-comment", "--agent", "careful", "--record-http", "--json"
    )
    assert (said.code, said.lines[0]["verdict"]) == (0, "MATCH")
    (path,) = tmp_path.glob("runs/run-*/trials/*/bundle/trace.json")
    trace = json.loads(path.read_bytes())
    assert {"tracker GET", "tracker PUT"} <= {call["tool"] for call in trace["actions"]}
    assert (trace["is_complete"], trace["is_agent_influenced"]) == (False, False)
