"""The steps that lead a store from one shape of its tables to the next; Alembic takes them."""
