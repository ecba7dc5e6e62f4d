"""Letters before they are sent: a mail server for the agent."""
