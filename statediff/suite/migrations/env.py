"""Alembic asks this module how to migrate: over the connection that the store hands in."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    # SQLite can take table changes back too, once its driver leaves transactions to the store.
    transactional_ddl=True,
)
context.run_migrations()
