"""The tools of a sandbox: what an agent that speaks no system's own protocol may call.

They do only what the agent's own account may do, at the URLs that any agent is given; a tool never
holds a credential of the evaluator.
"""
