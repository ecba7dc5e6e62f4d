"""An agent of LangGraph that refunds an order."""

import json

import refund
import scripted
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from statediff_hosts.frameworks.langgraph import recorded


def agent(trial):
    """Answers as the task asks."""

    @tool
    def refund_returned(order: int) -> dict:
        """Refunds the returned lines of an order and writes to the customer."""
        return refund.act(trial.urls, order)

    model = scripted.langgraph(*scripted.REFUND)  # of yours, `.bind_tools([refund_returned])`
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([refund_returned]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    clerk = recorded(graph.compile(), trial)
    said = clerk.invoke({"messages": [("user", trial.prompt)]})
    return json.loads(said["messages"][-1].content)
