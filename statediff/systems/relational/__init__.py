"""The common part of relational databases: their schema, how SQL is classified, and their tools."""
