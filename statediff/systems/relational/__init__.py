"""What relational databases share: their schema, how SQL is classified, and their tools."""
