"""Commands that put evaluators on trial, or read what others recorded."""
