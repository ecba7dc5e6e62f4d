"""moto's memory as plain rows, by entity type (`types`). Runs in the server's own process.

Cells are what JSON can say: texts, numbers, truth values, null, lists and objects; instants are ISO
texts with `Z`. Secrets of keys and sessions, and passwords, are in no row. Rows are sorted by
nothing: the source sorts. At most `MAX_ROWS` of a type are given; `Rows.more` counts the others.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from moto.iam.models import iam_backends
from moto.s3.models import FakeBucket, FakeDeleteMarker, FakeKey, S3Backend, s3_backends
from moto.sqs.models import Message, Queue, sqs_backends
from moto.sts.models import sts_backends

from statediff.systems.aws.policies import (
    ANYBODY,
    Grant,
    Policies,
    Statement,
    canonical,
    expand,
    span,
    statements,
)

MAX_ROWS: Final = 20_000
MAX_TEXT_BYTES: Final = 64 * 1024
_OWNER: Final = "75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a"
"""The canonical user that owns all of an account of moto's."""
_GROUPS: Final = {
    "http://acs.amazonaws.com/groups/global/AllUsers": ANYBODY,
    "http://acs.amazonaws.com/groups/global/AuthenticatedUsers": "any-account",
    "http://acs.amazonaws.com/groups/s3/LogDelivery": "service/log-delivery",
}
_BY_LIST: Final = {
    "READ": ("s3:GetObject",),
    "READ_ACP": ("s3:GetObjectAcl",),
    "WRITE_ACP": ("s3:PutObjectAcl",),
    "FULL_CONTROL": ("s3:GetObject", "s3:GetObjectAcl", "s3:PutObjectAcl"),
}
_BY_BUCKET_LIST: Final = {
    "READ": ("s3:ListBucket",),
    "WRITE": ("s3:PutObject", "s3:DeleteObject"),
    "READ_ACP": ("s3:GetBucketAcl",),
    "WRITE_ACP": ("s3:PutBucketAcl",),
    "FULL_CONTROL": (
        *("s3:ListBucket", "s3:PutObject", "s3:DeleteObject"),
        *("s3:GetBucketAcl", "s3:PutBucketAcl"),
    ),
}
Row = dict[str, Any]


@dataclass
class Rows:
    """By type: the rows, and how many more there are than are given."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    more: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, row: Row) -> None:
        into = self.rows.setdefault(name, [])
        if len(into) < MAX_ROWS:
            into.append(row)
        else:
            self.more[name] = self.more.get(name, 0) + 1


@dataclass
class _Rights:
    """What decides who may do what, gathered on the way."""

    account: str
    identity: dict[str, list[Statement]] = field(default_factory=dict)
    trust: dict[str, tuple[Statement, ...]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    resource: list[Statement] = field(default_factory=list)
    lists: list[Grant] = field(default_factory=list)


def rows_of(account: str) -> Rows:
    """All that the account holds."""
    into, rights = Rows(), _Rights(account)
    _identities(iam_backends[account]["aws"], into, rights)
    _sessions(into)
    backend = s3_backends[account]["aws"]
    for bucket in backend.buckets.values():
        _bucket(bucket, backend, into, rights)
    for region, queues in sqs_backends[account].items():
        for queue in queues.queues.values():
            _queue(queue, region, into, rights)
    _results(into, rights)
    return into


def _at(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _millis(moment: float | None) -> str | None:
    return _at(datetime.fromtimestamp(moment / 1000, UTC)) if moment else None


def _text(value: bytes | str | None) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value


def _digest(value: bytes | str) -> str:
    stored = value.encode(errors="surrogatepass") if isinstance(value, str) else value
    return hashlib.sha256(stored).hexdigest()


def plain(value: Any) -> Any:
    """What JSON can say of settings that moto keeps as it was given them."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        each = [plain(one) for one in value]
        return sorted(each, key=repr) if isinstance(value, set | frozenset) else each
    if isinstance(value, datetime):
        return _at(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, bytes):
        return _text(value)
    if hasattr(value, "__dict__"):
        return plain({n: each for n, each in vars(value).items() if not n.startswith("_")})
    return str(value)


def _tags(listed: Iterable[Mapping[str, Any]] | None) -> dict[str, Any]:
    return {str(each["Key"]): each.get("Value") for each in listed or ()}


# Identities


def _identities(iam: Any, into: Rows, rights: _Rights) -> None:
    policy = iam.account_password_policy
    settings = {} if policy is None else plain(policy)
    row = {"id": rights.account, "aliases": list(iam.account_aliases), "password_policy": settings}
    into.add("account", row)
    _policies(iam, into, rights.account)
    for group in iam.groups.values():
        row = {"name": group.name, "arn": group.arn, "id": group.id}
        into.add("group", {**row, "created_at": _at(group.create_date)})
        _held(f"group/{group.name}", group, into, rights)
        for member in group.users:
            into.add("membership", {"group": group.name, "user": member.name})
    for user in iam.users.values():
        row = {"name": user.name, "arn": user.arn, "id": user.id, "tags": _tags(user.tags)}
        into.add("user", {**row, "created_at": _at(user.create_date)})
        _credentials(user, into)
        own = _held(f"user/{user.name}", user, into, rights)
        for group in iam.groups.values():
            if any(member is user for member in group.users):
                own += _held(f"group/{group.name}", group, Rows(), rights)
        rights.identity[f"user/{user.name}"] = own
    for group in iam.groups.values():  # a group is no principal
        rights.identity.pop(f"group/{group.name}", None)
    _roles(iam, into, rights)
    _others(iam, into)


def _held(holder: str, owner: Any, into: Rows, rights: _Rights) -> list[Statement]:
    """The policies of a user, a group or a role; the statements that are in force."""
    found: list[Statement] = []
    for name, document in owner.policies.items():
        text = document if isinstance(document, str) else canonical(plain(document))
        into.add("inline_policy", {"holder": holder, "name": name, "document": text})
        found += _statements(f"{holder}/{_quoted(name)}", text, into, rights.account)
    for policy in owner.managed_policies.values():
        into.add("attachment", {"holder": holder, "policy": policy.name})
        for version in policy.versions:
            if version.version_id == policy.default_version_id:
                place = f"policy/{policy.name}:{version.version_id}"
                found += statements(place, version.document, rights.account)
    return found


def _quoted(name: str) -> str:
    """A policy's name as part of a place: two places are never one text."""
    return name.replace("%", "%25").replace("/", "%2F").replace(":", "%3A")


def _statements(document: str, text: str | None, into: Rows, account: str) -> tuple[Statement, ...]:
    found = statements(document, text or "", account)
    for each in found:
        into.add(
            "statement",
            {
                "document": each.document,
                "number": each.number,
                "sid": each.sid,
                "effect": each.effect,
                "principals": list(each.principals),
                "actions": list(each.actions),
                "resources": list(each.resources),
                "condition": each.condition or None,
                "negated": list(each.negated),
            },
        )
    return found


def _policies(iam: Any, into: Rows, account: str) -> None:
    for policy in iam.managed_policies.values():
        row = {
            "name": policy.name,
            "arn": policy.arn,
            "description": policy.description,
            "default_version": policy.default_version_id,
            "created_at": _at(policy.create_date),
            "tags": _tags(policy.tags.values()),
        }
        into.add("policy", row)
        for version in policy.versions:
            row = {
                "policy": policy.name,
                "version": version.version_id,
                "document": version.document,
                "created_at": _at(version.create_date),
            }
            into.add("policy_version", row)
            place = f"policy/{policy.name}:{version.version_id}"
            _statements(place, version.document, into, account)


def _credentials(user: Any, into: Rows) -> None:
    def add(kind: str, name: str, status: str | None, digest: str | None = None) -> None:
        row = {"user": user.name, "kind": kind, "id": name, "status": status, "digest": digest}
        into.add("credential", row)

    for key in user.access_keys:
        row = {"id": key.access_key_id, "user": user.name, "status": key.status}
        into.add("access_key", {**row, "created_at": _at(key.create_date)})
    if user.password is not None:
        add("password", "", "to be changed" if user.password_reset_required else None)
    for key in user.ssh_public_keys:
        add("ssh-key", key.ssh_public_key_id, key.status, _digest(key.ssh_public_key_body))
    for name, each in user.signing_certificates.items():
        add("certificate", name, each.status, _digest(each.body))
    for name in user.mfa_devices:
        add("mfa-device", name, None)


def _roles(iam: Any, into: Rows, rights: _Rights) -> None:
    for role in iam.roles.values():
        holder, trust = f"role/{role.name}", role.assume_role_policy_document
        text = trust if isinstance(trust, str) else canonical(plain(trust))
        row = {
            "name": role.name,
            "arn": role.arn,
            "id": role.id,
            "description": role.description or None,
            "max_session_seconds": _number(role.max_session_duration),
            "boundary": role.permissions_boundary_arn or None,
            "service": role._linked_service,  # noqa: SLF001 - it has no other name
            "trust": text,
            "created_at": _at(role.create_date),
            "tags": _tags(role.tags),
        }
        into.add("role", row)
        rights.identity[holder] = _held(holder, role, into, rights)
        rights.trust[role.arn] = _statements(f"{holder}:trust", text, into, rights.account)
        rights.roles[role.arn] = holder


def _others(iam: Any, into: Rows) -> None:
    for profile in iam.instance_profiles.values():
        row = {"name": profile.name, "arn": profile.arn, "tags": _tags(profile.tags)}
        into.add("instance_profile", {**row, "roles": sorted(r.name for r in profile.roles)})
    for kind, providers in (("saml", iam.saml_providers), ("oidc", iam.open_id_providers)):
        for each in providers.values():
            settings = plain({n: v for n, v in vars(each).items() if not n.startswith("_")})
            into.add("identity_provider", {"arn": each.arn, "kind": kind, "settings": settings})
    for device in iam.virtual_mfa_devices.values():
        row = {"user": "", "kind": "virtual-mfa-device", "id": device.serial_number}
        into.add("credential", {**row, "status": None, "digest": None})
    for held in iam.certificates.values():
        digest = _digest(f"{held.cert_body}\n{held.cert_chain}\n{held.private_key}")
        into.add("server_certificate", {"name": held.cert_name, "arn": held.arn, "digest": digest})


def _sessions(into: Rows) -> None:
    for accounts in sts_backends.values():
        for backend in accounts.values():
            for each in backend.assumed_roles:
                row = {
                    "id": each.access_key_id,
                    "role": each.role_arn,
                    "name": each.session_name,
                    "expires_at": _at(each.expiration),
                    "policy": each.policy,
                }
                into.add("session", row)


def _number(value: Any) -> int | None:
    try:
        return None if value in (None, "") else int(value)
    except (TypeError, ValueError):
        return None


# Buckets and objects


def _bucket(bucket: FakeBucket, backend: S3Backend, into: Rows, rights: _Rights) -> None:
    name, policy = bucket.name, _text(bucket.policy)
    ownership = (bucket.ownership_rule or {}).get("Rule") or {}
    lock = {
        "enabled": bucket.object_lock_enabled,
        "mode": bucket.default_lock_mode,
        "days": bucket.default_lock_days,
        "years": bucket.default_lock_years,
    }
    into.add(
        "bucket",
        {
            "name": name,
            "region": bucket.region_name,
            "created_at": _at(bucket.creation_date),
            "versioning": bucket.versioning_status,
            "policy": policy,
            "ownership": ownership.get("ObjectOwnership") if isinstance(ownership, dict) else None,
            "encryption": plain(bucket.encryption or {}),
            "object_lock": lock if bucket.object_lock_enabled else {},
            "logging": plain(bucket.logging),
            "replication": plain(getattr(bucket, "replication_configuration", None) or {}),
            "website": _text(bucket.website_configuration),
            "acceleration": bucket.accelerate_configuration,
            "payer": bucket.payer,
            "event_bridge": bool(getattr(bucket.notification_configuration, "event_bridge", None)),
            "tags": backend.tagger.get_tag_dict_for_resource(bucket.arn),
        },
    )
    _settings(bucket, into)
    block = bucket.public_access_block
    found = _statements(f"bucket/{name}", policy, into, rights.account)
    if block is None or not block.restrict_public_buckets:
        rights.resource += found
    else:
        rights.resource += [s for s in found if s.effect == "Deny" or ANYBODY not in s.principals]
    has_lists = ownership.get("ObjectOwnership") != "BucketOwnerEnforced"
    for grantee, permission in _grants_of(bucket.acl):
        into.add("bucket_grant", {"bucket": name, "grantee": grantee, "permission": permission})
        if has_lists and _counts(grantee, block):
            for action in _BY_BUCKET_LIST.get(permission, ()):
                below = "/*" if action.endswith("Object") else ""
                rights.lists.append(Grant(grantee, action, f"{bucket.arn}{below}", ""))
    _objects(bucket, backend, into, rights, has_lists=has_lists)


def _counts(grantee: str, block: Any) -> bool:
    """Whether an access list's grant is heeded."""
    is_public = grantee in (ANYBODY, "any-account")
    return grantee != "owner" and not (is_public and block is not None and block.ignore_public_acls)


def _grants_of(acl: Any) -> Iterator[tuple[str, str]]:
    """What an access list says beside the owner's full control, or that the owner lacks it."""
    if acl is None:
        return
    found = set()
    for grant in acl.grants:
        for grantee in grant.grantees:
            who = _GROUPS.get(grantee.uri, grantee.uri) if grantee.uri else None
            if who is None:
                who = "owner" if grantee.id == _OWNER else f"canonical/{grantee.id}"
            found |= {(who, str(each)) for each in _several(grant.permissions)}
    yield from sorted(found ^ {("owner", "FULL_CONTROL")})


def _several(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _settings(bucket: Any, into: Rows) -> None:
    name, block = bucket.name, bucket.public_access_block
    if block is not None:
        into.add(
            "public_access_block",
            {
                "bucket": name,
                "block_acls": block.block_public_acls,
                "ignore_acls": block.ignore_public_acls,
                "block_policy": block.block_public_policy,
                "restrict_policy": block.restrict_public_buckets,
            },
        )
    for rule, named in _distinct(bucket.rules):
        into.add("lifecycle_rule", {"bucket": name, **_lifecycle(rule), "id": named})
    for number, cors in enumerate(bucket.cors):
        row: Row = {
            "origins": _listed(cors.allowed_origins),
            "methods": _listed(cors.allowed_methods),
            "headers": _listed(cors.allowed_headers),
            "exposed": _listed(cors.exposed_headers),
            "max_age_seconds": _number(cors.max_age_seconds),
        }
        into.add("cors_rule", {"bucket": name, "number": number, **row})
    sent = bucket.notification_configuration
    listed = () if sent is None else (*sent.topic, *sent.queue, *sent.cloud_function)
    for each, named in _distinct(listed):
        row = {"id": named, "target": each.arn, "events": _listed(each.events)}
        into.add("notification", {"bucket": name, **row, "filter": plain(each.filters)})
    for each in bucket.inventory_configs.values():
        row = {"bucket": name, "id": each.id}
        into.add("inventory", {**row, "settings": plain(vars(each))})


def _listed(value: Any) -> list[Any]:
    return [plain(each) for each in _several(value)] if value is not None else []


def _distinct(each: Iterable[Any]) -> Iterator[tuple[Any, str]]:
    """Each with its id; the second of one id, which AWS would not take, has a number behind it."""
    seen: dict[str, int] = {}
    for one in each:
        name = str(one.id)
        seen[name] = seen.get(name, 0) + 1
        yield one, name if seen[name] == 1 else f"{name} ({seen[name]})"


def _lifecycle(rule: Any) -> Row:
    narrowed = rule.filter
    both = getattr(narrowed, "and_filter", None)
    tags = dict(getattr(both, "tags", None) or {})
    if getattr(narrowed, "tag_key", None):
        tags[narrowed.tag_key] = narrowed.tag_value
    prefixes = (rule.prefix, getattr(narrowed, "prefix", None), getattr(both, "prefix", None))
    return {
        "id": rule.id,
        "status": rule.status,
        "prefix": next((each for each in prefixes if each), None),
        "tags": sorted(f"{key}={value}" for key, value in tags.items()),
        "expire_days": _number(rule.expiration_days),
        "expire_date": rule.expiration_date,
        "expire_markers": rule.expired_object_delete_marker,
        "expire_noncurrent_days": _number(rule.nve_noncurrent_days),
        "abort_uploads_days": _number(rule.aimu_days),
        "transitions": plain(rule.transitions or []),
        "noncurrent_transitions": plain(rule.noncurrent_version_transitions or []),
    }


def _objects(
    bucket: FakeBucket, backend: S3Backend, into: Rows, rights: _Rights, *, has_lists: bool
) -> None:
    for key, versions in dict.items(bucket.keys):
        for version in versions:
            place = {"bucket": bucket.name, "key": key, "version": version.version_id}
            content = _content(version, backend)
            is_marker = isinstance(version, FakeDeleteMarker)
            into.add("object_version", {**place, "is_delete_marker": is_marker, **content})
            is_latest = version is versions[-1]
            if is_latest and not is_marker:
                into.add("object", {**place, **content})
            for grantee, permission in () if is_marker else _grants_of(version.acl):
                into.add("object_grant", {**place, "grantee": grantee, "permission": permission})
                if has_lists and _counts(grantee, bucket.public_access_block):
                    more = "" if is_latest else f"?versionId={version.version_id}"
                    arn = f"{bucket.arn}/{key}{more}"
                    for action in _BY_LIST.get(permission, ()):
                        rights.lists.append(Grant(grantee, action, arn, ""))
    for upload in bucket.multiparts.values():
        parts = [
            {"number": number, "size": part.size, "digest": _digest(part.value)}
            for number, part in sorted(upload.parts.items())
        ]
        row = {"bucket": bucket.name, "id": upload.id, "key": upload.key_name, "parts": parts}
        into.add("upload", {**row, "metadata": plain(upload.metadata), "tags": plain(upload.tags)})


def _content(version: FakeKey | FakeDeleteMarker, backend: S3Backend) -> Row:
    modified = {"modified_at": _at(version.last_modified)}
    if isinstance(version, FakeDeleteMarker):
        nothing = dict.fromkeys(("size", "digest", "text", "content_type", "storage_class"))
        empty: Row = {name: {} for name in ("metadata", "encryption", "lock", "tags")}
        return {**nothing, **empty, "redirect": None, **modified}
    value = version.value
    text = None
    if len(value) <= MAX_TEXT_BYTES:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = None
    # moto keeps some headers of the request beside what its owner says of the object.
    metadata = {
        name.lower().removeprefix("x-amz-meta-"): each
        for name, each in version.metadata.items()
        if not name.lower().startswith("x-amz-") or name.lower().startswith("x-amz-meta-")
    }
    lock = {
        "mode": version.lock_mode,
        "until": plain(version.lock_until),
        "hold": plain(version.lock_legal_status),
    }
    encryption = {"kind": version.encryption, "key": version.kms_key_id}
    return {
        "size": len(value),
        "digest": _digest(value),
        "text": text,
        "content_type": metadata.pop("content-type", None),
        "metadata": plain(metadata),
        "storage_class": version.storage_class,
        "encryption": {n: each for n, each in encryption.items() if each},
        "lock": {n: each for n, each in lock.items() if each},
        "redirect": version.website_redirect_location,
        "tags": backend.tagger.get_tag_dict_for_resource(version.arn),
        **modified,
    }


# Queues


_SETTINGS: Final = (
    *("receive_message_wait_time_seconds", "fifo_queue", "content_based_deduplication"),
    *("deduplication_scope", "fifo_throughput_limit", "kms_master_key_id"),
    *("kms_data_key_reuse_period_seconds", "sqs_managed_sse_enabled"),
)


def _queue(queue: Queue, region: str, into: Rows, rights: _Rights) -> None:
    held: Any = queue
    policy = held.policy
    redrive = getattr(held, "redrive_policy", None) or {}
    into.add(
        "queue",
        {
            "name": queue.name,
            "region": region,
            "created_at": _at(datetime.fromtimestamp(queue.created_timestamp, UTC)),
            "policy": policy,
            "dead_letters_to": str(redrive.get("deadLetterTargetArn", "")).rpartition(":")[2]
            or None,
            "max_receives": _number(redrive.get("maxReceiveCount")),
            "delay_seconds": held.delay_seconds,
            "retention_seconds": held.message_retention_period,
            "visibility_seconds": held.visibility_timeout,
            "max_bytes": held.maximum_message_size,
            "settings": {n: plain(getattr(held, n, None)) for n in _SETTINGS},
            "tags": plain(queue.tags),
        },
    )
    rights.resource += _statements(f"queue/{queue.name}", policy, into, rights.account)
    for message in queue._messages:  # noqa: SLF001 - `messages` leaves out those that are hidden
        into.add("queue_message", {"queue": queue.name, **_message(message)})


def _message(message: Message) -> Row:
    attributes = {}
    for name, each in message.message_attributes.items():
        value = each.get("StringValue", each.get("BinaryValue"))
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode("ascii")
        attributes[name] = {"type": each.get("DataType"), "value": plain(value)}
    return {
        "id": message.id,
        "body": message.body,
        "attributes": attributes,
        "group": message.group_id,
        "deduplication": message.deduplication_id,
        "sent_at": _millis(message.sent_timestamp),
        "receives": message.approximate_receive_count,
        "first_received_at": _millis(message.approximate_first_receive_timestamp),
        "hidden_until": _millis(message.visible_at),
        "delayed_until": _millis(message.delayed_until),
    }


def _results(into: Rows, rights: _Rights) -> None:
    policies = Policies(rights.identity, rights.trust, rights.roles, rights.resource, rights.lists)
    for name, grants in zip(("permission", "denial"), expand(policies), strict=True):
        for grant in sorted(grants):
            spans = {
                "action_span": span(grant.action, is_action=True),
                "resource_span": span(grant.resource),
            }
            into.add(name, {**grant._asdict(), **spans})
