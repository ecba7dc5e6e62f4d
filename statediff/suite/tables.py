"""The tables of a store, as its newest migration leaves them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

HEAD: Final = "0004"
"""The newest migration."""
METADATA: Final = MetaData()

RUNS: Final = Table(
    "runs", METADATA,
    Column("id", String(32), primary_key=True),
    Column("location", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("statediff", Text, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("facts", Text, nullable=False),
)  # fmt: skip

TRIALS: Final = Table(
    "trials", METADATA,
    Column("run", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("ended", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("contract", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("number", Integer),
    Column("seed", BigInteger),
    Column("tool", Text),
    Column("task", Text),
    Column("outcome", Text),
    Column("started_at", Text),
    Column("agent_microseconds", BigInteger),
    Column("cost_nano", BigInteger),
    Column("attempts", Integer, nullable=False),
    Column("is_retried", Boolean, nullable=False),
    Column("cause", Text, nullable=False),
    Column("bundle", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("stamp", Text, nullable=False),
    Index("trials_ended", "run", "ended"),
    Index("trials_number", "run", "contract", "number"),
    Index("trials_case", "run", "contract", "version", "digest", "kernel", "agent", "ended"),
)  # fmt: skip

FINDINGS: Final = Table(
    "findings", METADATA,
    Column("run", String(32), primary_key=True),
    Column("trial", Text, primary_key=True),
    Column("at", Integer, primary_key=True),
    Column("clause", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("truth", Text, nullable=False),
    ForeignKeyConstraint(["run", "trial"], ["trials.run", "trials.name"], ondelete="CASCADE"),
    Index("findings_clause", "run", "clause", "code"),
)  # fmt: skip

COPIES: Final = Table(
    "copies", METADATA,
    Column("run", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("url", Text, primary_key=True),
)  # fmt: skip
"""Below which URLs a run's folder is copied; no URL in here holds a credential."""

OPINIONS: Final = Table(
    "opinions", METADATA,
    Column("run", String(32), primary_key=True),
    Column("trial", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("content", Text, nullable=False),
    ForeignKeyConstraint(["run", "trial"], ["trials.run", "trials.name"], ondelete="CASCADE"),
)  # fmt: skip
"""What reviewers signed, file by file as it lies beside bundles; whoever asks checks by whom."""
