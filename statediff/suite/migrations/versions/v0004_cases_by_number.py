"""A case's trials are found by contract and number."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two runs are compared without a look at every pair of trials of a contract."""
    op.create_index("trials_number", "trials", ["run", "contract", "number"])


def downgrade() -> None:
    """No content is lost."""
    op.drop_index("trials_number", "trials")
