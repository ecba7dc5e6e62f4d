"""Buckets with their settings and access lists, objects with their versions, uploads, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from moto.s3.models import FakeBucket, FakeDeleteMarker, FakeKey, S3Backend

from statediff_cloud.access_lists import by_bucket_list, by_object_list, grantee_of, is_heeded
from statediff_cloud.policies import ANYBODY
from statediff_cloud.rows import (
    MAX_TEXT_BYTES,
    Rights,
    Row,
    Rows,
    add_statements,
    at,
    digest,
    number,
    plain,
    rest,
    text_of,
)

_OF_BUCKET: Final = (
    *("name", "account_id", "region_name", "partition", "creation_date", "keys", "multiparts"),
    *("versioning_status", "rules", "policy", "website_configuration", "acl", "cors", "logging"),
    *("notification_configuration", "accelerate_configuration", "payer", "public_access_block"),
    *("encryption", "object_lock_enabled", "default_lock_mode", "default_lock_days"),
    *("default_lock_years", "ownership_rule", "inventory_configs", "replication"),
)
"""Attributes that fields or types of their own show; what it may have beside them is in `other`."""

_OWNER: Final = "75aa57f09aa0c8caeab4f8c24e99d10f8e7faeebf76c078efc7c6caea54ba06a"
"""The canonical user that owns all of an account of moto's."""


def add_bucket(bucket: FakeBucket, backend: S3Backend, into: Rows, rights: Rights) -> None:
    """The bucket with all that is in it and that says who may do what with it."""
    name, policy = bucket.name, text_of(bucket.policy)
    ownership = _ownership(bucket.ownership_rule)
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
            "created_at": at(bucket.creation_date),
            "versioning": bucket.versioning_status,
            "policy": policy,
            "ownership": ownership,
            "encryption": plain(bucket.encryption or {}),
            "object_lock": lock if bucket.object_lock_enabled else {},
            "logging": plain(bucket.logging),
            "replication": plain(getattr(bucket, "replication", None) or {}),
            "website": text_of(bucket.website_configuration),
            "acceleration": bucket.accelerate_configuration,
            "payer": bucket.payer,
            "event_bridge": getattr(bucket.notification_configuration, "event_bridge", None)
            is not None,
            "tags": backend.tagger.get_tag_dict_for_resource(bucket.arn),
            "other": rest(bucket, *_OF_BUCKET),
        },
    )
    _settings(bucket, into)
    block = bucket.public_access_block
    found = add_statements(f"bucket/{name}", policy, into, rights.account)
    if block is None or not block.restrict_public_buckets:
        rights.resource += found
    else:
        rights.resource += [s for s in found if s.effect == "Deny" or ANYBODY not in s.principals]
    has_lists = ownership != "BucketOwnerEnforced"
    for grantee, permission in _grants_of(bucket.acl):
        into.add("bucket_grant", {"bucket": name, "grantee": grantee, "permission": permission})
        if has_lists and is_heeded(grantee, _ignores_public(block)):
            rights.lists += by_bucket_list(grantee, permission, bucket.arn)
    _objects(bucket, backend, into, rights, has_lists=has_lists)


def _ownership(rule: Any) -> str | None:
    """Who owns what others write, which moto keeps as a word or in a map."""
    if isinstance(rule, Mapping):
        inner = rule.get("Rule")
        rule = inner.get("ObjectOwnership") if isinstance(inner, Mapping) else inner
    return None if rule is None else str(rule)


def _ignores_public(block: Any) -> bool:
    return block is not None and bool(block.ignore_public_acls)


def _grants_of(acl: Any) -> Iterator[tuple[str, str]]:
    """The grants of an access list beside the owner's full control, or that the owner lacks it."""
    if acl is None:
        return
    found = set()
    for grant in acl.grants:
        for grantee in grant.grantees:
            who = grantee_of(grantee.uri, grantee.id, _OWNER)
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
    for place, cors in enumerate(bucket.cors):
        row: Row = {
            "origins": _listed(cors.allowed_origins),
            "methods": _listed(cors.allowed_methods),
            "headers": _listed(cors.allowed_headers),
            "exposed": _listed(cors.exposed_headers),
            "max_age_seconds": number(cors.max_age_seconds),
        }
        into.add("cors_rule", {"bucket": name, "number": place, **row})
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
        "expire_days": number(rule.expiration_days),
        "expire_date": rule.expiration_date,
        "expire_markers": rule.expired_object_delete_marker,
        "expire_noncurrent_days": number(rule.nve_noncurrent_days),
        "abort_uploads_days": number(rule.aimu_days),
        "transitions": plain(rule.transitions or []),
        "noncurrent_transitions": plain(rule.noncurrent_version_transitions or []),
    }


def _objects(
    bucket: FakeBucket, backend: S3Backend, into: Rows, rights: Rights, *, has_lists: bool
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
                if has_lists and is_heeded(grantee, _ignores_public(bucket.public_access_block)):
                    more = "" if is_latest else f"?versionId={version.version_id}"
                    arn = f"{bucket.arn}/{key}{more}"
                    rights.lists += by_object_list(grantee, permission, arn)
    for upload in bucket.multiparts.values():
        parts = [
            {"number": number, "size": part.size, "digest": digest(part.value)}
            for number, part in sorted(upload.parts.items())
        ]
        row = {"bucket": bucket.name, "id": upload.id, "key": upload.key_name, "parts": parts}
        into.add(
            "upload",
            {
                **row,
                "metadata": plain(upload.metadata),
                "tags": plain(upload.tags),
                "settings": _upload_settings(upload),
            },
        )


def _upload_settings(upload: Any) -> Row:
    """The object's settings beside content, metadata and tags, once the upload is complete."""
    known = ("key_name", "metadata", "tags", "acl", "parts", "partlist", "id")
    grants = [f"{permission} {grantee}" for grantee, permission in _grants_of(upload.acl)]
    settings = rest(upload, "account_id", "region_name", *known)
    return {**settings, "grants": grants} if grants else settings


def _content(version: FakeKey | FakeDeleteMarker, backend: S3Backend) -> Row:
    modified = {"modified_at": at(version.last_modified)}
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
        "restored_until": plain(version.expiry_date),
    }
    encryption = {
        "kind": version.encryption,
        "key": version.kms_key_id,
        "bucket_key": plain(version.bucket_key_enabled),
    }
    return {
        "size": len(value),
        "digest": digest(value),
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
