"""How many calls a trial has, and how many of them are wrong or not known to be right."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_CALLS = ("calls", "calls_wrong", "calls_unknown")


def upgrade() -> None:
    """Trials that are known already are read again: without a stamp they count as changed."""
    for name in _CALLS:
        op.add_column("trials", sa.Column(name, sa.Integer(), nullable=False, server_default="0"))
    op.execute("UPDATE trials SET stamp = '' WHERE bundle <> ''")


def downgrade() -> None:
    """No other content is lost."""
    for name in _CALLS:
        op.drop_column("trials", name)
