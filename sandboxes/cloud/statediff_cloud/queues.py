"""Queues, their settings and their messages, as rows."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any, Final

from moto.sqs.models import Message, Queue

from statediff_cloud.rows import (
    Rights,
    Row,
    Rows,
    add_statements,
    at,
    millis,
    number,
    plain,
    rest,
)

_SETTINGS: Final = (
    *("receive_message_wait_time_seconds", "fifo_queue", "content_based_deduplication"),
    *("deduplication_scope", "fifo_throughput_limit", "kms_master_key_id"),
    *("kms_data_key_reuse_period_seconds", "sqs_managed_sse_enabled"),
)
_KNOWN: Final = (
    *("_name", "region", "created_timestamp", "last_modified_timestamp"),
    *("tags", "policy", "redrive_policy", "dead_letter_queue", "lambda_event_source_mappings"),
    *("delay_seconds", "message_retention_period", "visibility_timeout", "maximum_message_size"),
    *(
        "_messages",
        "_pending_messages",
        "_messages_lock",
        "_policy_json",
        "deleted_messages",
        "last_purged_at",
    ),
)
"""Attributes that fields of their own have, that follow from others, or that hold messages. Any
other is among the settings, the name of its account too: moto sets whatever a request names."""


def add_queue(queue: Queue, region: str, into: Rows, rights: Rights) -> None:
    """The queue with its messages, and who may do what with it."""
    held: Any = queue
    policy = held.policy
    redrive = getattr(held, "redrive_policy", None) or {}
    into.add(
        "queue",
        {
            "name": queue.name,
            "region": region,
            "created_at": at(datetime.fromtimestamp(queue.created_timestamp, UTC)),
            "policy": policy,
            "dead_letters_to": str(redrive.get("deadLetterTargetArn", "")).rpartition(":")[2]
            or None,
            "max_receives": number(redrive.get("maxReceiveCount")),
            "delay_seconds": held.delay_seconds,
            "retention_seconds": held.message_retention_period,
            "visibility_seconds": held.visibility_timeout,
            "max_bytes": held.maximum_message_size,
            "settings": {
                **{n: plain(getattr(held, n, None)) for n in _SETTINGS},
                **rest(held, *_SETTINGS, *_KNOWN),
            },
            "tags": plain(queue.tags),
        },
    )
    rights.resource += add_statements(f"queue/{queue.name}", policy, into, rights.account)
    for message in queue._messages:  # noqa: SLF001 - `messages` leaves out those that are hidden
        into.add("queue_message", {"queue": queue.name, **_message(message)})


def _message(message: Message) -> Row:
    attributes = {}
    for name, each in message.message_attributes.items():
        value = each.get("StringValue", each.get("BinaryValue"))
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode("ascii")
        attributes[name] = {"type": each.get("DataType"), "value": plain(value)}
    for name, each in message.system_attributes.items():
        attributes[f"system {name}"] = plain(each)
    return {
        "id": message.id,
        "body": message.body,
        "attributes": attributes,
        "group": message.group_id,
        "deduplication": message.deduplication_id,
        "sent_at": millis(message.sent_timestamp),
        "receives": message.approximate_receive_count,
        "first_received_at": millis(message.approximate_first_receive_timestamp),
        "hidden_until": millis(message.visible_at),
        "delayed_until": millis(message.delayed_until),
    }
