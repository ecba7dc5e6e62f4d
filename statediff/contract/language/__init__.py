"""The expression language: syntax, parser, names, kinds, functions, and the English of it."""
