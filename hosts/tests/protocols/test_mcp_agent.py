import json
import sys
from pathlib import Path

import pytest
from statediff_hosts.protocols.mcp_agent import McpAgent
from statediff_hosts.protocols.native import NativeAgent

from statediff.agents.command import CommandAgent
from statediff.agents.trial import Haltable
from statediff.harness import JudgedTrial
from statediff.model.trace import ActionClass
from statediff.model.verdict import Truth, Verdict
from statediff.packs import contract_folder
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.tasks import live_trial
from tests.tasks import running as running  # noqa: PLC0414 - a fixture
from tests.tasks import shop as shop  # noqa: PLC0414 - a fixture

PROGRAM = Path(__file__).parent / "refund_by_mcp.py"
CONTRACT = contract_folder("shop/refund-returned-order").contract


def tried(
    shop: EmbeddedSandbox, folder: Path, *how: str, config: Path | None = None
) -> JudgedTrial:
    agent = McpAgent(CommandAgent((sys.executable, str(PROGRAM), *how), 60.0), config)
    return live_trial(shop, CONTRACT, agent, folder / "trial")


def test_an_agent_that_has_only_tools_does_the_task_and_every_call_is_recorded(shop, tmp_path):
    done = tried(shop, tmp_path)
    run = done.observed.run
    assert run.exit_code == 0, run.stderr.text
    assert done.evaluated.judgement.verdict is Verdict.MATCH
    trace = run.trace
    assert trace.is_complete
    assert trace.gap is None
    assert [(a.tool, a.error, a.principal) for a in trace.actions] == [
        ("shop_db_query", None, "agent"),
        ("shop_db_execute", None, "agent"),
        ("outbox_send", None, "agent"),
    ]
    read, _, sent = trace.actions
    assert read.action_class is ActionClass.READ
    assert sent.action_class is ActionClass.NOTIFICATION
    assert all(a.started_at <= a.finished_at for a in trace.actions)


def test_calls_of_unknown_tools_and_invalid_calls_are_recorded_and_change_nothing(shop, tmp_path):
    done = tried(shop, tmp_path, "clumsy")
    judged = done.evaluated.judgement
    assert (judged.outcome, judged.tool) == (Verdict.MATCH, Verdict.DIVERGE)
    [outside] = [finding for finding in judged.findings if finding.truth is Truth.FAILS]
    assert "irreversible-deletion" in outside.sentence  # it was refused, and it was tried
    unknown, invalid, denied, *_ = done.observed.run.trace.actions
    assert unknown.tool == "shop_db_drop_everything"
    assert "there is no tool" in unknown.error
    assert "sql: Field required" in invalid.error
    assert "readonly" in denied.error


def test_an_agent_on_mcp_servers_of_its_own_is_recorded_by_the_proxy(shop, tmp_path):
    entry = {
        "command": sys.executable,
        "args": ["-S", str(PROGRAM.with_name("tiny_server.py"))],
        "env": {"SHOP": "${STATEDIFF_SHOP_DB_URL}", "MAIL": "${STATEDIFF_OUTBOX_URL}"},
        "classes": {"refund": "conditional-update"},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"own": entry}}))
    done = tried(shop, tmp_path, "own", config=config)
    assert done.evaluated.judgement.verdict is Verdict.MATCH, done.observed.run.stderr.text
    (call,) = done.observed.run.trace.actions
    assert (call.tool, call.action_class) == ("refund", ActionClass.CONDITIONAL_UPDATE)
    assert call.result == 3900
    assert done.observed.run.trace.gap is None


@pytest.mark.parametrize("around", [McpAgent, NativeAgent])
def test_what_stands_around_a_program_is_ended_with_it(shop, tmp_path, around):
    agent = around(CommandAgent((sys.executable, "-c", "input()"), 60.0))
    assert isinstance(agent, Haltable)
    agent.halted.set()
    with pytest.raises(KeyboardInterrupt):
        live_trial(shop, CONTRACT, agent, tmp_path / "trial")
