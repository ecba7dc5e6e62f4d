"""Agents of frameworks, with their calls of tools in the trial's trace.

A module a framework, each with `recorded(agent, trial)`, imported only by the agent that uses it.
Where the framework itself makes an error a message to its model, the log has the error. What a
framework's provider carries out (web search and the like) is not recorded, and the log says so.
"""
