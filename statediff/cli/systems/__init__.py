"""Commands for systems: sandboxes, tools over MCP, and what this machine offers."""
