"""Agents reached by protocols: MCP, a model behind an endpoint, requests over HTTP."""
