"""What a trial cost, how often it was begun, and its domain, so that databases can add them up."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NEW = (
    ("domain", sa.Text(), ""),
    ("cause", sa.Text(), ""),
    ("attempts", sa.Integer(), "1"),
    ("is_retried", sa.Boolean(), sa.false()),
)


def upgrade() -> None:
    """Every trial is to be read again: what is new about it lies in its folder."""
    for name, kind, default in _NEW:
        op.add_column("trials", sa.Column(name, kind, nullable=False, server_default=default))
    for name in ("seed", "cost_nano"):
        op.add_column("trials", sa.Column(name, sa.BigInteger))
    trials = sa.table("trials", sa.column("stamp"), sa.column("contract"), sa.column("domain"))
    connection = op.get_bind()
    for (contract,) in connection.execute(sa.select(trials.c.contract).distinct()).all():
        connection.execute(
            sa.update(trials)
            .where(trials.c.contract == contract)
            .values(domain=contract.partition("/")[0], stamp="")
        )
    op.create_index("findings_clause", "findings", ["run", "clause", "code"])
    op.create_index(
        "trials_case",
        "trials",
        ["run", "contract", "version", "digest", "kernel", "agent", "ended"],
    )


def downgrade() -> None:
    """The store holds what it held before; it is read again all the same."""
    op.drop_index("trials_case", "trials")
    op.drop_index("findings_clause", "findings")
    for name in ("cost_nano", "seed", *(name for name, _, _ in _NEW)):
        op.drop_column("trials", name)
