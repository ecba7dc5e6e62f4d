"""A small place: an office with a role that sees little, and artifacts in three subsystems."""

import pytest
from statediff_lab.reads.config import EvaluationConfig, parse_config
from statediff_lab.reads.log import Corpus, Event, corpus_of

from statediff.reads.index import Artifact

CONFIG = b"""
reads: office
version: 1.0.0
zone: UTC
subsystems: [zoom, zoom_transcript, jira]
roles:
  hr_ops: {sees: [zoom]}
  engineer: {sees: [jira, zoom, zoom_transcript]}
  outside: {sees: []}
actors: {patty: hr_ops, alex: engineer, jax: engineer, eve: outside, ghost: nobody}
causal_links:
  - id: incident-contact
    cause: incident_opened
    effect: contact_summarized
    join: [incident]
    max_gap: 3d
    mechanism: incident_coordination
    aliases: [external coordination]
silences:
  - id: incident-without-contact
    trigger: incident_opened
    response: contact_summarized
    join: [incident]
    max_gap: 3d
    search:
      - {subsystem: jira, where: {kind: issue}, joined: true}
"""
DAY = 86_400_000_000


def artifact(name: str, subsystem: str, at: int = DAY, **more: object) -> Artifact:
    recorded = int(more.pop("recorded_at", at))  # type: ignore[call-overload] # fields by name
    return Artifact(name, subsystem, at=at, recorded_at=recorded, **more)  # type: ignore[arg-type] # fields by name


def event(name: str, kind: str, at: int, **more: object) -> Event:
    return Event(name, kind, at, **more)  # type: ignore[arg-type] # fields by name


@pytest.fixture
def office() -> EvaluationConfig:
    return parse_config(CONFIG, "config.yaml").content


@pytest.fixture
def corpus() -> Corpus:
    return corpus_of(
        (),
        [
            *(
                artifact(f"z{n}", "zoom", title="meeting", people=("patty", "jax"))
                for n in range(8)
            ),
            *(artifact(f"t{n}", "zoom_transcript", people=("patty",)) for n in range(8)),
            *(artifact(f"j{n}", "jira", title="issue") for n in range(11)),
            artifact("late", "jira", 9 * DAY, title="issue of later"),
            artifact("backfilled", "jira", DAY, recorded_at=9 * DAY, title="issue"),
        ],
    )
