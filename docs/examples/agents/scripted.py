"""Models that say what they are given: lists of calls of tools, then texts."""

import json

REFUND = [("refund_returned", {"order": 1009})], '{"refunded_cents": 3900}'


def pydantic_ai(*turns):
    """A model of it that says these."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    rest = iter(turns)

    def say(messages, info):
        said = next(rest)
        text = isinstance(said, str)
        return ModelResponse([TextPart(said)] if text else [ToolCallPart(*each) for each in said])

    return FunctionModel(say)


def langgraph(*turns):
    """A model of it that says these."""
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    def message(said):
        if isinstance(said, str):
            return AIMessage(said)
        calls = [{"name": n, "args": a, "id": f"{n}-{i}"} for i, (n, a) in enumerate(said)]
        return AIMessage("", tool_calls=calls)

    return GenericFakeChatModel(messages=map(message, turns))


def openai_agents(*turns):
    """A model of it that says these."""
    from agents import Model, ModelResponse, Usage, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall as Call
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)  # else what the agent does is sent to OpenAI
    rest = iter(turns)

    def call(name, arguments):
        text = json.dumps(arguments)
        return Call(name=name, arguments=text, call_id=name + text, type="function_call")

    def message(text):
        part = ResponseOutputText(text=text, type="output_text", annotations=[])
        return ResponseOutputMessage(
            id="1", content=[part], role="assistant", status="completed", type="message"
        )

    class Scripted(Model):
        async def get_response(self, *asked, **options):
            said = next(rest)
            text = isinstance(said, str)
            output = [message(said)] if text else [call(*each) for each in said]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *asked, **options):
            raise NotImplementedError

    return Scripted()
