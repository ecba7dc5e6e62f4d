"""The numbers beside a verdict, and how the clauses along a run and over the whole of it ended."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_NUMBERS = ("precision_nano", "recall_nano", "forbidden_nano")
_LEVELS = ("along", "whole")
_CASE = ["run", "contract", "version", "digest", "kernel", "agent", "ended"]
_RESULTS = ["tool", "task", "outcome"]


def upgrade() -> None:
    """Trials that are known already are read again: without a stamp they count as changed."""
    for name in _NUMBERS:
        op.add_column("trials", sa.Column(name, sa.BigInteger(), nullable=True))
    for name in _LEVELS:
        op.add_column("trials", sa.Column(name, sa.Text(), nullable=True))
    op.drop_index("trials_case", "trials")
    op.create_index("trials_case", "trials", [*_CASE, *_RESULTS, *_LEVELS])
    op.execute("UPDATE trials SET stamp = '' WHERE bundle <> ''")


def downgrade() -> None:
    """No other content is lost."""
    op.drop_index("trials_case", "trials")
    op.create_index("trials_case", "trials", _CASE)
    for name in (*_NUMBERS, *_LEVELS):
        op.drop_column("trials", name)
