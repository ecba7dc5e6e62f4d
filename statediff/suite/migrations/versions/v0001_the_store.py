"""Runs, trials, findings, where copies of runs are, and what reviewers said of trials."""

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_OF_TRIAL = ("run", "contract", "version", "digest", "kernel", "agent", "ended")
_NUMBERS = ("precision_nano", "recall_nano", "forbidden_nano")
_COUNTS = (
    *("turns", "turns_first", "turns_after", "turns_failed"),
    *("calls", "calls_wrong", "calls_unknown"),
)
_RESULTS = ("tool", "task", "outcome", "along", "whole")


def _run() -> sa.Column[str]:
    run = sa.ForeignKey("runs.id", ondelete="CASCADE")
    return sa.Column("run", sa.String(32), run, primary_key=True)


def _trial() -> Iterator[sa.Column[str] | sa.ForeignKeyConstraint]:
    yield sa.Column("run", sa.String(32), primary_key=True)
    yield sa.Column("trial", sa.Text, primary_key=True)
    yield sa.ForeignKeyConstraint(
        ["run", "trial"], ["trials.run", "trials.name"], ondelete="CASCADE"
    )


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def upgrade() -> None:
    """The store has its tables, and nothing in them."""
    op.create_table(
        "runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("location", sa.Text, nullable=False, unique=True),
        *_texts("name", "statediff", "kernel", "facts"),
    )
    op.create_table(
        "trials",
        _run(),
        sa.Column("name", sa.Text, primary_key=True),
        *_texts("ended", "domain", "contract", "version", "digest", "kernel", "agent"),
        sa.Column("number", sa.Integer),
        *(sa.Column(name, sa.Text) for name in (*_RESULTS, "started_at")),
        *(
            sa.Column(name, sa.BigInteger)
            for name in ("seed", "agent_microseconds", "cost_nano", *_NUMBERS)
        ),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("is_retried", sa.Boolean, nullable=False),
        *_texts("cause", "bundle", "why", "stamp"),
        *(sa.Column(name, sa.Integer, nullable=False, server_default="0") for name in _COUNTS),
    )
    op.create_index("trials_ended", "trials", ["run", "ended"])
    op.create_index("trials_number", "trials", ["run", "contract", "number"])
    op.create_index("trials_case", "trials", [*_OF_TRIAL, *_RESULTS])
    op.create_table(
        "findings",
        *_trial(),
        sa.Column("at", sa.Integer, primary_key=True),
        *_texts("clause", "code", "stage", "truth"),
    )
    op.create_table(
        "opinions", *_trial(), sa.Column("name", sa.Text, primary_key=True), *_texts("content")
    )
    op.create_index("findings_clause", "findings", ["run", "clause", "code"])
    op.create_table("copies", _run(), sa.Column("url", sa.Text, primary_key=True))
