"""An agent of the OpenAI Agents SDK that refunds an order."""

import json

import refund
import scripted
from agents import Agent, Runner, function_tool
from statediff_hosts.frameworks.openai_agents import recorded


def agent(trial):
    """Answers as the task asks."""

    @function_tool
    def refund_returned(order: int) -> dict:
        """Refunds the returned lines of an order and writes to the customer."""
        return refund.act(trial.urls, order)

    model = scripted.openai_agents(*scripted.REFUND)
    clerk = Agent("clerk", model=model, tools=[refund_returned])
    return json.loads(Runner.run_sync(recorded(clerk, trial), trial.prompt).final_output)
