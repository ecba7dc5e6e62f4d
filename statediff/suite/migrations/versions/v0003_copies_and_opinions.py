"""Where copies of runs lie, and what reviewers said of trials: apart from how these ended."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The store knows of no copy and no opinion yet; nothing of a trial is touched."""
    op.create_table(
        "copies",
        sa.Column(
            "run", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("url", sa.Text, primary_key=True),
    )
    op.create_table(
        "opinions",
        sa.Column("run", sa.String(32), primary_key=True),
        sa.Column("trial", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["run", "trial"], ["trials.run", "trials.name"], ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    """The store knows of neither; both are in the folders of runs, or were reported."""
    op.drop_table("opinions")
    op.drop_table("copies")
