"""Runs, trials and findings."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The store holds runs, trials and findings, and none yet."""
    op.create_table(
        "runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("location", sa.Text, nullable=False, unique=True),
        *(sa.Column(n, sa.Text, nullable=False) for n in ("name", "statediff", "kernel", "facts")),
    )
    op.create_table(
        "trials",
        sa.Column(
            "run", sa.String(32), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("name", sa.Text, primary_key=True),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("ended", "contract", "version", "digest", "kernel", "agent")
        ),
        sa.Column("number", sa.Integer),
        *(sa.Column(name, sa.Text) for name in ("tool", "task", "outcome", "started_at")),
        sa.Column("agent_microseconds", sa.BigInteger),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("bundle", "why", "stamp")),
    )
    op.create_index("trials_ended", "trials", ["run", "ended"])
    op.create_table(
        "findings",
        sa.Column("run", sa.String(32), primary_key=True),
        sa.Column("trial", sa.Text, primary_key=True),
        sa.Column("at", sa.Integer, primary_key=True),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("clause", "code", "stage", "truth")
        ),
        sa.ForeignKeyConstraint(
            ["run", "trial"], ["trials.run", "trials.name"], ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    """The store holds nothing; its index is made again from the run folders."""
    for table in ("findings", "trials", "runs"):
        op.drop_table(table)
