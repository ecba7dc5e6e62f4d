"""Queues with their settings, as the API of an account lists them. Messages are only counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from statediff.systems.hosted.listed import Listing
from statediff_cloud.asked import Asked
from statediff_cloud.rows import Rights, add_statements, number
from statediff_cloud.types import QUEUE_TYPES, RESULT_TYPES

_TYPES: Final = (*QUEUE_TYPES, *RESULT_TYPES)
_COLUMNS: Final = {
    "DelaySeconds": "delay_seconds",
    "MessageRetentionPeriod": "retention_seconds",
    "VisibilityTimeout": "visibility_seconds",
    "MaximumMessageSize": "max_bytes",
}
_KNOWN: Final = (
    *(*_COLUMNS, "QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"),
    *("Policy", "RedrivePolicy"),
)


def add_queues(asked: Asked, into: Listing, rights: Rights, region: str) -> None:
    """All queues of the region; how many messages they hold is among their settings."""
    for url in asked.each("list_queues", "QueueUrls", *_TYPES):
        name = url.rpartition("/")[2]
        named: dict[str, Any] = {"QueueUrl": url, "AttributeNames": ["All"]}
        answer = asked.one("get_queue_attributes", *_TYPES, **named)
        said = answer["Attributes"] if isinstance(answer, dict) else None
        if said is None:
            into.add("queue", {"name": name, "region": region})
            continue
        tags = asked.one("list_queue_tags", "queue", QueueUrl=url)
        redrive = _object(said.get("RedrivePolicy"))
        created = datetime.fromtimestamp(float(said["CreatedTimestamp"]), UTC)
        policy = said.get("Policy") or None
        row = {
            "name": name,
            "region": region,
            "created_at": created,
            "policy": policy,
            "dead_letters_to": str(redrive.get("deadLetterTargetArn", "")).rpartition(":")[2]
            or None,
            "max_receives": number(redrive.get("maxReceiveCount")),
            **{column: number(said.get(member)) for member, column in _COLUMNS.items()},
            "settings": {n: each for n, each in said.items() if n not in _KNOWN},
            "tags": tags.get("Tags", {}) if isinstance(tags, dict) else tags or {},
        }
        into.add("queue", row)
        rights.resource += add_statements(f"queue/{name}", policy, into, rights.account)


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
