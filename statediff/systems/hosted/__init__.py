"""What issue trackers share: their tools, and REST with the agent's account."""
