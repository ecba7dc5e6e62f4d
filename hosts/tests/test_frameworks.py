"""Agents of frameworks, the real packages with scripted models: their calls are in the trace."""

import importlib.util
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

import statediff
from statediff import Trial, Verdict
from statediff.agents.function import FunctionAgent
from statediff.agents.handover import LACKS, SELF_RECORDED, TrustedAgent
from tests.test_docs import CHECKOUT, blocks

CONTRACT = "shop/refund-returned-order"
CLASSES = {"refund_returned": "conditional-update", "purge_order": "irreversible-deletion"}
PAGE = CHECKOUT / "docs" / "agents.md"
REFUND = ("refund_returned", {"order": 1009})
PURGE = ("purge_order", {"order": 1009, "reason": "tidy"})
ANSWER = '{"refunded_cents": 3900}'
Tools = list[Callable[..., Any]]


def of_page(name: str) -> ModuleType:
    """A file that docs/agents.md shows, or names, as a module."""
    beside = CHECKOUT / "docs" / "examples" / "agents" / name
    found = [content for _, found, content in blocks(PAGE) if found == name]
    [text] = found or [beside.read_text(encoding="utf-8")]
    module = ModuleType(name.removesuffix(".py"))
    exec(compile(text, name, "exec"), module.__dict__)
    return module


scripted, refund = of_page("scripted.py"), of_page("refund.py")


def tools_of(trial: Trial) -> Tools:
    async def refund_returned(order: int) -> dict[str, int]:
        """Refunds what came back."""
        return refund.act(trial.urls, order)

    def purge_order(order: int, reason: str = "none") -> str:
        """Deletes an order for good."""
        raise PermissionError(f"order {order} stays: {reason}")

    return [refund_returned, purge_order]


async def pydantic_ai(trial: Trial, tools: Tools, turns: Any) -> str:
    from pydantic_ai import Agent, ModelRetry, RunContext, Tool
    from statediff_hosts.frameworks.pydantic_ai import recorded

    refund_returned, purge_order = tools

    def purge(_: RunContext[None], order: int, reason: str = "none") -> str:
        try:
            return purge_order(order, reason)
        except PermissionError as error:
            raise ModelRetry(str(error)) from error

    clerk = Agent(
        scripted.pydantic_ai(*turns),
        tools=[refund_returned, Tool(purge, name="purge_order")],
        retries=3,
    )
    return str((await recorded(clerk, trial, CLASSES).run(trial.prompt)).output)


async def langgraph(trial: Trial, tools: Tools, turns: Any) -> str:
    from langchain_core.tools import StructuredTool
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition
    from statediff_hosts.frameworks.langgraph import recorded

    refund_returned, purge_order = tools
    model = scripted.langgraph(*turns)
    made = [
        StructuredTool.from_function(coroutine=refund_returned),
        StructuredTool.from_function(purge_order),
    ]
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(made, handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    clerk = recorded(graph.compile(), trial, CLASSES)
    said = await clerk.ainvoke({"messages": [("user", trial.prompt)]})
    return str(said["messages"][-1].content)


async def openai_agents(trial: Trial, tools: Tools, turns: Any) -> str:
    from agents import Agent, Runner, function_tool
    from statediff_hosts.frameworks.openai_agents import recorded

    made = [function_tool(each) for each in tools]
    clerk = Agent("clerk", model=scripted.openai_agents(*turns), tools=made)
    front = Agent(
        "front",
        model=scripted.openai_agents([("transfer_to_clerk", {})]),
        handoffs=[clerk],
    )
    clerk.handoffs.append(front)
    return str((await Runner.run(recorded(front, trial, CLASSES), trial.prompt)).final_output)


def framework(run: Callable[[Trial, Tools, Any], Awaitable[str]], package: str) -> Any:
    missing = importlib.util.find_spec(package) is None
    why = f"needs the package {package}: pip install statediff[test]"
    return pytest.param(run, id=run.__name__, marks=pytest.mark.skipif(missing, reason=why))


FRAMEWORKS = [
    framework(pydantic_ai, "pydantic_ai"),
    framework(langgraph, "langgraph"),
    framework(openai_agents, "agents"),
]


@pytest.fixture(scope="module")
def shop() -> Iterator[Any]:
    with statediff.open_sandbox("shop") as sandbox:
        yield sandbox


def judged(shop: Any, run: Any, turns: Any) -> tuple[Any, Any]:
    async def agent(trial: Trial) -> Any:
        return json.loads(await run(trial, tools_of(trial), turns))

    [found] = statediff.run(CONTRACT, FunctionAgent(agent, "clerk"), sandbox=shop)
    return found, found.bundle.document("trace.json")


@pytest.mark.parametrize("run", FRAMEWORKS)
def test_a_right_agent_matches_and_its_calls_are_in_the_trace(shop, run):
    found, trace = judged(shop, run, ([REFUND], ANSWER))
    found.assert_match()
    [call] = trace["actions"]
    assert (call["tool"], call["class"], call["error"]) == (REFUND[0], CLASSES[REFUND[0]], None)
    assert call["arguments"] == ["map", [["order", ["int", "1009"]]]]
    assert "3900" in json.dumps(call["result"])
    assert call["started_at"] <= call["finished_at"]
    assert (trace["cause"], trace["is_agent_influenced"]) == (SELF_RECORDED, True)


@pytest.mark.parametrize("run", FRAMEWORKS)
def test_a_wrong_agent_diverges_by_what_it_called(shop, run):
    """The call failed and changed nothing: only the trace has it."""
    refused = ("purge_order", {"order": "no number"})
    found, trace = judged(shop, run, ([REFUND], [PURGE, refused], ANSWER))
    assert found.verdict is Verdict.DIVERGE
    assert {f["code"] for f in found.findings if f["truth"] == "FAILS"} == {"action-outside"}
    assert "purge_order" in found.line
    first, *purged = trace["actions"]
    assert (first["tool"], first["error"]) == ("refund_returned", None)
    assert [call["tool"] for call in purged] == ["purge_order", "purge_order"]
    by_order = sorted(purged, key=lambda call: json.dumps(call["arguments"]))
    assert by_order[0]["arguments"] == [
        "map",
        [["order", ["int", "1009"]], ["reason", ["text", "tidy"]]],
    ]
    assert "order 1009 stays: tidy" in by_order[0]["error"]
    assert by_order[1]["arguments"][1][0] == ["order", ["text", "no number"]]
    assert by_order[1]["error"]


async def searching_provider(trial: Trial) -> str:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, NativeToolCallPart, TextPart
    from pydantic_ai.models.function import FunctionModel
    from statediff_hosts.frameworks.pydantic_ai import recorded

    said = ModelResponse([NativeToolCallPart("web_search", {}), TextPart("done")])
    clerk = Agent(FunctionModel(lambda *_: said))
    return str((await recorded(clerk, trial).run(trial.prompt)).output)


async def hosted_tools_and_agents(trial: Trial) -> str:
    from agents import Agent, HostedMCPTool, Runner
    from statediff_hosts.frameworks.openai_agents import recorded

    hosted = HostedMCPTool(tool_config={"type": "mcp", "server_label": "crm"})
    inner = Agent("inner", model=scripted.openai_agents("asked")).as_tool("ask", "Asks.")
    model = scripted.openai_agents([("ask", {"input": "x"})], "done")
    clerk = Agent("clerk", model=model, tools=[hosted, inner])
    return str((await Runner.run(recorded(clerk, trial), trial.prompt)).final_output)


@pytest.mark.parametrize(
    ("run", "cause", "tools"),
    [
        (searching_provider, "the model's provider called web_search", []),
        (hosted_tools_and_agents, "clerk may use hosted_mcp, the agent behind ask", ["ask"]),
    ],
)
def test_what_an_adapter_cannot_see_is_missing_whoever_answers_for_it(tmp_path, run, cause, tools):
    pytest.importorskip("agents" if tools else "pydantic_ai")
    trial = Trial("do it", {}, {}, tmp_path, tmp_path / "answer", tmp_path / "trace.jsonl")
    ran = TrustedAgent(FunctionAgent(run, "clerk")).run(trial, lambda: datetime.now(UTC))
    assert ran.answer == "done"
    assert [(call.tool, call.error) for call in ran.trace.actions] == [(t, None) for t in tools]
    assert not ran.trace.is_complete
    assert ran.trace.cause.startswith(LACKS + cause)
