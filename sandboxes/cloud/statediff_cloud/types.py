"""The entity types of an account: identities, policies, buckets, objects, queues.

Names are those by which an owner knows a thing: users, roles, groups and queues by their name,
objects by bucket and key. `statement` has one entity for each statement of each policy document;
`permission` and `denial` say what follows from all of them (`policies.expand`).
"""

from __future__ import annotations

from typing import Final

from statediff.model.schema import EntityType, Field, Kind, Purpose


def _text(name: str, to: str | None = None) -> Field:
    return Field(name, Kind.TEXT, is_nullable=False, reference=to)


def _maybe(name: str, to: str | None = None) -> Field:
    return Field(name, Kind.TEXT, reference=to)


def _at(name: str) -> Field:
    return Field(name, Kind.TIMESTAMP)


def _int(name: str) -> Field:
    return Field(name, Kind.INT)


def _bool(name: str) -> Field:
    return Field(name, Kind.BOOL, is_nullable=False)


def _list(name: str) -> Field:
    return Field(name, Kind.LIST, is_nullable=False)


def _map(name: str) -> Field:
    return Field(name, Kind.MAP, is_nullable=False)


def _json(name: str) -> Field:
    return Field(name, Kind.JSON)


_RIGHTS: Final = Purpose.PERMISSIONS

_IDENTITIES: Final = (
    EntityType("account", ("id",), (_text("id"), _list("aliases"), _map("password_policy"))),
    EntityType(
        "user",
        ("name",),
        (
            *(_text("name"), _text("arn"), _text("id"), _at("created_at"), _map("tags")),
            _map("other"),
        ),
    ),
    EntityType(
        "access_key",
        ("id",),
        (_text("id"), _text("user", "user"), _text("status"), _at("created_at")),
    ),
    EntityType(
        "credential",
        ("user", "kind", "id"),
        (_text("user", "user"), _text("kind"), _text("id"), _maybe("status"), _maybe("digest")),
    ),
    EntityType(
        "group",
        ("name",),
        (_text("name"), _text("arn"), _text("id"), _at("created_at"), _map("other")),
    ),
    EntityType(
        "membership",
        ("group", "user"),
        (_text("group", "group"), _text("user", "user")),
        is_association=True,
        holds=_RIGHTS,
    ),
    EntityType(
        "role",
        ("name",),
        (
            _text("name"),
            _text("arn"),
            _text("id"),
            _maybe("description"),
            _int("max_session_seconds"),
            _maybe("boundary"),
            _maybe("service"),
            _json("trust"),
            _at("created_at"),
            _map("tags"),
            _map("other"),
        ),
        holds=_RIGHTS,
    ),
    EntityType(
        "session",
        ("id",),
        (_text("id"), _text("role"), _maybe("name"), _at("expires_at"), _json("policy")),
        holds=_RIGHTS,
    ),
    EntityType(
        "instance_profile",
        ("name",),
        (_text("name"), _text("arn"), _list("roles"), _map("tags")),
        holds=_RIGHTS,
    ),
    EntityType(
        "identity_provider",
        ("arn",),
        (_text("arn"), _text("kind"), _map("settings")),
        holds=_RIGHTS,
    ),
    EntityType("server_certificate", ("name",), (_text("name"), _text("arn"), _text("digest"))),
)

_POLICIES: Final = (
    EntityType(
        "policy",
        ("name",),
        (
            _text("name"),
            _text("arn"),
            _maybe("description"),
            _text("default_version"),
            _at("created_at"),
            _map("tags"),
        ),
        holds=_RIGHTS,
    ),
    EntityType(
        "policy_version",
        ("policy", "version"),
        (_text("policy", "policy"), _text("version"), _json("document"), _at("created_at")),
        holds=_RIGHTS,
    ),
    EntityType(
        "inline_policy",
        ("holder", "name"),
        (_text("holder"), _text("name"), _json("document")),
        holds=_RIGHTS,
    ),
    EntityType(
        "attachment",
        ("holder", "policy"),
        (_text("holder"), _text("policy", "policy")),
        is_association=True,
        holds=_RIGHTS,
    ),
    EntityType(
        "statement",
        ("document", "number"),
        (
            _text("document"),
            Field("number", Kind.INT, is_nullable=False),
            _maybe("sid"),
            _text("effect"),
            _list("principals"),
            _list("actions"),
            _list("resources"),
            _json("condition"),
            _list("negated"),
        ),
        holds=_RIGHTS,
    ),
)

_GRANT: Final = (
    *(_text("principal"), _text("action"), _text("resource"), _text("condition")),
    *(_text("action_span"), _text("resource_span")),
)
_RESULTS: Final = tuple(
    EntityType(name, ("principal", "action", "resource", "condition"), _GRANT, holds=_RIGHTS)
    for name in ("permission", "denial")
)

_BUCKETS: Final = (
    EntityType(
        "bucket",
        ("name",),
        (
            _text("name"),
            _text("region"),
            _at("created_at"),
            _maybe("versioning"),
            _json("policy"),
            _maybe("ownership"),
            _map("encryption"),
            _map("object_lock"),
            _map("logging"),
            _map("replication"),
            _maybe("website"),
            _maybe("acceleration"),
            _text("payer"),
            _bool("event_bridge"),
            _map("tags"),
            _map("other"),
        ),
    ),
    EntityType(
        "public_access_block",
        ("bucket",),
        (
            _text("bucket", "bucket"),
            *(_bool("block_acls"), _bool("ignore_acls")),
            *(_bool("block_policy"), _bool("restrict_policy")),
        ),
        holds=_RIGHTS,
    ),
    EntityType(
        "bucket_grant",
        ("bucket", "grantee", "permission"),
        (_text("bucket", "bucket"), _text("grantee"), _text("permission")),
        is_association=True,
        holds=_RIGHTS,
    ),
    EntityType(
        "lifecycle_rule",
        ("bucket", "id"),
        (
            _text("bucket", "bucket"),
            _text("id"),
            _maybe("status"),
            _maybe("prefix"),
            _list("tags"),
            _int("expire_days"),
            _maybe("expire_date"),
            _maybe("expire_markers"),
            _int("expire_noncurrent_days"),
            _int("abort_uploads_days"),
            _list("transitions"),
            _list("noncurrent_transitions"),
        ),
    ),
    EntityType(
        "cors_rule",
        ("bucket", "number"),
        (
            _text("bucket", "bucket"),
            Field("number", Kind.INT, is_nullable=False),
            *(_list("origins"), _list("methods"), _list("headers"), _list("exposed")),
            _int("max_age_seconds"),
        ),
    ),
    EntityType(
        "notification",
        ("bucket", "id"),
        (_text("bucket", "bucket"), _text("id"), _text("target"), _list("events"), _map("filter")),
    ),
    EntityType(
        "inventory",
        ("bucket", "id"),
        (_text("bucket", "bucket"), _text("id"), _map("settings")),
    ),
)

_CONTENT: Final = (
    Field("size", Kind.INT),
    _maybe("digest"),
    _maybe("text"),
    _maybe("content_type"),
    _map("metadata"),
    _maybe("storage_class"),
    _map("encryption"),
    _map("lock"),
    _maybe("redirect"),
    _map("tags"),
    Field("modified_at", Kind.TIMESTAMP, is_nullable=False),
)
_OBJECTS: Final = (
    EntityType(
        "object",
        ("bucket", "key"),
        (_text("bucket", "bucket"), _text("key"), _text("version"), *_CONTENT),
    ),
    EntityType(
        "object_version",
        ("bucket", "key", "version"),
        (
            *(_text("bucket", "bucket"), _text("key"), _text("version")),
            _bool("is_delete_marker"),
            *_CONTENT,
        ),
    ),
    EntityType(
        "object_grant",
        ("bucket", "key", "version", "grantee", "permission"),
        (
            *(_text("bucket", "bucket"), _text("key"), _text("version")),
            *(_text("grantee"), _text("permission")),
        ),
        is_association=True,
        holds=_RIGHTS,
    ),
    EntityType(
        "upload",
        ("bucket", "id"),
        (
            *(_text("bucket", "bucket"), _text("id"), _text("key")),
            *(_list("parts"), _map("metadata"), _map("tags"), _map("settings")),
        ),
    ),
)
_QUEUES: Final = (
    EntityType(
        "queue",
        ("name",),
        (
            _text("name"),
            _text("region"),
            _at("created_at"),
            _json("policy"),
            _maybe("dead_letters_to", "queue"),
            _int("max_receives"),
            _int("delay_seconds"),
            _int("retention_seconds"),
            _int("visibility_seconds"),
            _int("max_bytes"),
            _map("settings"),
            _map("tags"),
        ),
    ),
    EntityType(
        "queue_message",
        ("queue", "id"),
        (
            *(_text("queue", "queue"), _text("id"), _text("body"), _map("attributes")),
            *(_maybe("group"), _maybe("deduplication"), _at("sent_at")),
            Field("receives", Kind.INT, is_nullable=False),
            *(_at("first_received_at"), _at("hidden_until")),
            _at("delayed_until"),
        ),
    ),
)

TYPES: Final = (
    *_IDENTITIES,
    *_POLICIES,
    *_RESULTS,
    *_BUCKETS,
    *_OBJECTS,
    *_QUEUES,
)
"""All of them. `credential` is a password, an SSH key, a signing certificate or an MFA device.
`holder` is `user/ada`, `group/staff` or `role/courier`, and so is `principal`, which may also be
`account`, `*`, `any-account`, `service/…` or whatever else a document names. The spans say what a
permission covers: one is within another if both of its spans start with the other's.
`object` is the version that a reader gets; there is none where a delete marker is the latest.
`other` is what moto keeps of a thing and no field shows; it is empty as a rule.
`digest` is SHA-256 of the content, hex; `text` is there for UTF-8 of at most 64 KiB."""

IDENTITY_TYPES: Final = (
    *("account", "user", "access_key", "credential", "group", "membership", "role", "policy"),
    *("policy_version", "inline_policy", "attachment", "statement", "instance_profile"),
    *("identity_provider", "server_certificate"),
)
BUCKET_TYPES: Final = (
    *("bucket", "public_access_block", "bucket_grant", "statement", "lifecycle_rule", "cors_rule"),
    *("notification", "inventory", "object", "object_version", "object_grant", "upload"),
)
QUEUE_TYPES: Final = ("queue", "queue_message", "statement")
RESULT_TYPES: Final = ("permission", "denial")
"""The types of which identities, a bucket, a queue, and all policies together have rows."""
