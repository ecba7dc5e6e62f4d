"""The common part of issue trackers: their tools, and REST with the agent's account."""
