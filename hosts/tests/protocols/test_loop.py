"""The tool loop against a real HTTP server that speaks the protocol, well and badly."""

import json
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest
from statediff_hosts.protocols.chat import MAX_ANSWER_CHARACTERS, MAX_RETRIES, Endpoint
from statediff_hosts.protocols.loop import LoopAgent, as_reply

from statediff.agents.trial import AgentRun, Budget, Prices, Trial
from statediff.capture.source import clock
from statediff.errors import AdapterError, UsageError
from statediff.model.trace import ActionClass, NoAnswer
from statediff.model.values import Map, same
from tests.agents.chat_server import ChatServer, Step, speaking

LOOK = ("db_query", json.dumps({"sql": "SELECT name FROM people ORDER BY id"}))
DONE = Step('{"people": 2}')
PRICES = Prices(Decimal("2.50"), Decimal(10))


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    folder = tmp_path / "agent"
    folder.mkdir()
    with sqlite3.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        db.execute("INSERT INTO people VALUES (1, 'Ada'), (2, 'Grace')")
    db.close()
    return Trial(
        prompt="How many people are there?",
        inputs={},
        urls={"db": f"sqlite:///{tmp_path}/db"},
        folder=folder,
        answer_path=folder / "answer.json",
        trace_path=folder / "trace.jsonl",
    )


def run(trial: Trial, server: ChatServer, **more: object) -> AgentRun:
    pauses: list[float] = []
    endpoint = Endpoint(
        server.url,
        "test-model",
        "sk-secret",
        streams=bool(more.pop("streams", False)),
        answer_seconds=float(more.pop("answer_seconds", 10.0)),
        pause=pauses.append,
    )
    budget = more.pop("budget", Budget(PRICES))
    done = LoopAgent(endpoint, budget, **more).run(trial, clock)
    assert all(pause <= 60 for pause in pauses)
    run.pauses = pauses
    return done


@pytest.mark.parametrize("streams", [False, True])
def test_a_model_calls_tools_and_answers_and_everything_is_counted(streams, trial):
    with speaking(Step("I look.", [LOOK]), DONE) as server:
        done = run(trial, server, streams=streams)
    assert done.error is None
    assert done.answer == Map.of({"people": 2})
    (call,) = done.trace.actions
    assert (call.tool, call.action_class, call.error) == ("db_query", ActionClass.READ, None)
    assert call.result == Map.of({"rows": (Map.of({"name": "Ada"}), Map.of({"name": "Grace"}))})
    assert call.messages.beginning == "I look."
    assert "How many people" in call.context.beginning or call.context.characters > 2000
    assert done.trace.gap is None
    assert [turn.message for turn in done.trace.turns] == [trial.prompt]
    assert (done.usage.requests, done.usage.tokens_in, done.usage.tokens_out) == (2, 200, 20)
    assert done.usage.cost == Decimal("0.0007")
    first, second = server.requests
    assert {tool["function"]["name"] for tool in first["tools"]} == {"db_query", "db_execute"}
    roles = [message["role"] for message in second["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert json.loads(second["messages"][3]["content"])["rows"][0] == {"name": "Ada"}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    "fault",
    [
        Step(status=429, headers=[("Retry-After", "3")]),
        Step(status=500),
        Step(status=503),
        Step(cut=True, text="half of an answer"),
        Step(body=b'data: {"choices": [{"delta": \n\n'),
        Step(body=b"{}"),
        Step(body=b'{"choices": [{"message": "not an object"}]}'),
        Step(body=b"<html>busy</html>"),
    ],
    ids=["429", "500", "503", "cut", "no-json", "empty", "wrong-shape", "html"],
)
def test_what_fails_by_no_fault_of_the_request_is_asked_again(fault, streams, trial):
    with speaking(fault, DONE) as server:
        done = run(trial, server, streams=streams)
    assert done.answer == Map.of({"people": 2})
    assert (done.usage.retries, len(server.requests)) == (1, 2)
    assert run.pauses == [3.0] if fault.status == 429 else len(run.pauses) == 1


def test_a_timeout_is_asked_again_and_no_call_is_made_twice(trial):
    slow = Step("late", [("db_execute", '{"statements": ["DELETE FROM people"]}')], sleep=1.5)
    with speaking(slow, Step("", [LOOK]), DONE) as server:
        done = run(trial, server, answer_seconds=0.5)
    assert [call.tool for call in done.trace.actions] == ["db_query"]
    assert done.usage.retries == 1


def test_what_stays_broken_is_a_fault_of_the_harness_and_not_the_agents(trial):
    with speaking(Step(status=500)) as server, pytest.raises(AdapterError) as fault:
        run(trial, server)
    assert len(server.requests) == MAX_RETRIES + 1
    assert "gave no answer, asked 6 times" in str(fault.value)
    with speaking(Step(status=401, body=b'{"error": {"message": "bad key sk-secret"}}')) as server:
        with pytest.raises(AdapterError, match="`key_env`") as fault:
            run(trial, server)
        assert len(server.requests) == 1
    assert "sk-secret" not in str(fault.value)
    with pytest.raises(AdapterError, match="check the URL"):
        run(trial, ChatServer("http://127.0.0.1:9/v1"))
    with speaking(DONE) as server, pytest.raises(AdapterError, match="ends in /v1"):
        run(trial, ChatServer(server.url.removesuffix("/v1")))


def test_unknown_tools_and_malformed_arguments_are_answered_and_recorded(trial):
    script = Step("", [("no_such_tool", "{}"), ("db_query", '{"sql": '), ("db_query", "[1]"), LOOK])
    with speaking(script, DONE) as server:
        done = run(trial, server)
    unknown, broken, listed, right = done.trace.actions
    assert "there is no tool" in unknown.error
    assert broken.arguments == Map.of({"unparsed": '{"sql": '})
    assert "JSON object" in broken.error
    assert "JSON object" in listed.error
    assert right.error is None
    told = [m["content"] for m in server.requests[1]["messages"] if m["role"] == "tool"]
    assert [text.startswith("error: ") for text in told] == [True, True, True, False]


def test_what_is_huge_is_bounded(trial):
    big = ("db_query", json.dumps({"sql": "SELECT printf('%.*c', 3000000, 'x') AS x"}))
    with speaking(Step("", [big]), DONE) as server:
        done = run(trial, server)
    told = next(m["content"] for m in server.requests[1]["messages"] if m["role"] == "tool")
    assert len(told) < 64 * 1024
    assert len(done.trace.actions) == 1
    for streams in (False, True):
        with speaking(Step("y" * (MAX_ANSWER_CHARACTERS + 1))) as server:
            done = run(trial, server, streams=streams)
        assert "more than" in done.error
        assert isinstance(done.answer, NoAnswer)


def test_a_model_that_never_answers_is_ended_and_one_that_is_refused_has_failed(trial):
    with speaking(Step("", [LOOK])) as server:
        done = run(trial, server, max_turns=3)
    assert done.error == "the model had not answered after 3 turns"
    assert len(done.trace.actions) == 3
    with speaking(Step(status=400, body=b'{"error": {"message": "context too long"}}')) as server:
        done = run(trial, server)
    assert "context too long" in done.error


def test_a_limit_on_the_cost_needs_prices_and_counts_and_is_kept(trial):
    with pytest.raises(UsageError, match="give both prices"):
        Budget(Prices(), Decimal(1))
    with speaking(Step("", [LOOK], usage=False)) as server:
        with pytest.raises(AdapterError, match="does not say how many tokens"):
            run(trial, server, budget=Budget(PRICES, Decimal(1)))
        assert run(trial, server, max_turns=1).usage.cost is None
    with speaking(Step("", [LOOK])) as server:
        with pytest.raises(AdapterError, match=r"--max-cost is 0\.0005"):
            run(trial, server, budget=Budget(PRICES, Decimal("0.0005")))
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', Map.of({"a": 1})),
        ('Here it is:\n```json\n{"a": 1}\n```\nBye.', Map.of({"a": 1})),
        ("1.50", Decimal("1.50")),
    ],
)
def test_an_answer_is_the_json_that_a_message_is_or_holds_in_its_only_block(text, value):
    found = as_reply(text)
    assert same(found, value), found


@pytest.mark.parametrize(
    "text", ["done", "", "```\n{}\n``` ```\n{}\n```", '{"a": NaN}', "[" * 9999]
)
def test_what_is_no_json_is_no_answer(text):
    assert isinstance(as_reply(text), NoAnswer)
