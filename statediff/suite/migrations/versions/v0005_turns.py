"""How many turns a live trial had, and how many of their gates held at first and after a repair."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NEW = ("turns", "turns_first", "turns_after", "turns_failed")


def upgrade() -> None:
    """Trials that are known already had none: no trial before had live turns."""
    for name in _NEW:
        column = sa.Column(name, sa.Integer(), nullable=False, server_default="0")
        op.add_column("trials", column)


def downgrade() -> None:
    """No other content is lost."""
    for name in _NEW:
        op.drop_column("trials", name)
