"""Buckets with their settings and access lists, objects with their versions, as the API lists them.

A setting that the account refuses to show is unobserved in its bucket, with the cause; where it
may say who may do what, permissions are incomplete too. What of a setting no field shows is in
`other`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from statediff.model.values import Unobserved
from statediff.systems.hosted.listed import Listing, rest
from statediff_cloud.access_lists import by_bucket_list, by_object_list, grantee_of, is_heeded
from statediff_cloud.asked import Asked
from statediff_cloud.policies import ANYBODY, canonical
from statediff_cloud.rows import MAX_ROWS, MAX_TEXT_BYTES, Rights, add_statements, tags_of
from statediff_cloud.types import BUCKET_TYPES, RESULT_TYPES

Contents = dict[tuple[str, ...], dict[str, Any]]
"""(bucket, key, version, ETag, time) → what was read there, so that nothing is fetched twice."""
Setting = dict[str, Any] | Unobserved | None

_BLOCK_BYTES: Final = 1024 * 1024
_OBJECTS: Final = ("object", "object_version", "object_grant")
_HEADERS: Final = ("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage")
_OF_CONTENT: Final = (
    *("Body", "AcceptRanges", "ContentLength", "ETag", "LastModified", "VersionId", "DeleteMarker"),
    *("ContentType", "Metadata", "StorageClass", "ServerSideEncryption", "SSEKMSKeyId"),
    *("BucketKeyEnabled", "ObjectLockMode", "ObjectLockRetainUntilDate", "TagCount", "Expires"),
    *("ObjectLockLegalHoldStatus", "WebsiteRedirectLocation", "MissingMeta", "ContentRange"),
    *("ChecksumCRC32", "ChecksumCRC32C", "ChecksumCRC64NVME", "ChecksumSHA1", "ChecksumSHA256"),
    "ChecksumType",
)


def add_buckets(asked: Asked, into: Listing, rights: Rights, contents: Contents) -> None:
    """All buckets with all that is in them and that says who may do what with them."""
    for bucket in asked.each("list_buckets", "Buckets", *BUCKET_TYPES, *RESULT_TYPES):
        _Bucket(asked, into, rights, bucket["Name"]).add(bucket, contents)


class _Bucket:
    def __init__(self, asked: Asked, into: Listing, rights: Rights, name: str) -> None:
        self.asked = asked
        self.into = into
        self.rights = rights
        self.name = name
        self.other: dict[str, Any] = {}

    def ask(self, operation: str, *types: str) -> Setting:
        """A setting, without the name around it; None where there is none."""
        answer = self.asked.one(operation, *types, Bucket=self.name)
        return answer or None if isinstance(answer, dict) else answer

    def inside(self, operation: str, member: str) -> Any:
        """One member of a setting; the others are in `other`."""
        answer = self.ask(operation)
        if not isinstance(answer, dict):
            return answer
        if more := rest(answer, member):
            self.other[operation.removeprefix("get_bucket_")] = more
        return answer.get(member)

    def add(self, bucket: Mapping[str, Any], contents: Contents) -> None:
        name, into, rights = self.name, self.into, self.rights
        found = self.ask("get_bucket_policy", *RESULT_TYPES, "statement")
        policy = found.get("Policy") if isinstance(found, dict) else found
        block = self._block()
        own = self.ask("get_bucket_ownership_controls", *RESULT_TYPES)
        ownership = (
            own["OwnershipControls"]["Rules"][0]["ObjectOwnership"]
            if isinstance(own, dict)
            else own
        )
        sent = self.ask("get_bucket_notification_configuration", "notification")
        tags = self.inside("get_bucket_tagging", "TagSet")
        website = self.ask("get_bucket_website")
        row: dict[str, Any] = {
            "name": name,
            "created_at": bucket["CreationDate"],
            "region": self._region(),
            "versioning": self.inside("get_bucket_versioning", "Status"),
            "policy": policy,
            "ownership": ownership,
            "encryption": self._map("get_bucket_encryption", "ServerSideEncryptionConfiguration"),
            "object_lock": self._map("get_object_lock_configuration", "ObjectLockConfiguration"),
            "logging": self._map("get_bucket_logging", "LoggingEnabled"),
            "replication": self._map("get_bucket_replication", "ReplicationConfiguration"),
            "website": canonical(website) if isinstance(website, dict) else website,
            "acceleration": self.inside("get_bucket_accelerate_configuration", "Status"),
            "payer": self.inside("get_bucket_request_payment", "Payer"),
            "event_bridge": "EventBridgeConfiguration" in sent if isinstance(sent, dict) else False,
            "tags": tags_of(tags) if not isinstance(tags, Unobserved) else tags,
        }
        self._settings(sent)
        if isinstance(policy, str):
            stated = add_statements(f"bucket/{name}", policy, into, rights.account)
            is_shut = bool(block.get("RestrictPublicBuckets"))
            rights.resource += [
                s
                for s in stated
                if not is_shut or s.effect == "Deny" or ANYBODY not in s.principals
            ]
        has_lists = ownership != "BucketOwnerEnforced"
        acl = self.ask("get_bucket_acl", "bucket_grant", *RESULT_TYPES)
        for grantee, permission in _grants_of(acl):
            into.add("bucket_grant", {"bucket": name, "grantee": grantee, "permission": permission})
            if has_lists and is_heeded(grantee, bool(block.get("IgnorePublicAcls"))):
                rights.lists += by_bucket_list(grantee, permission, f"arn:aws:s3:::{name}")
        self._objects(contents, block, has_lists=has_lists)
        self._uploads()
        into.add("bucket", {**row, "other": self.other})

    def _region(self) -> Any:
        found = self.ask("get_bucket_location")
        if isinstance(found, Unobserved):
            return found
        return (found or {}).get("LocationConstraint") or "us-east-1"

    def _map(self, operation: str, member: str) -> Any:
        found = self.inside(operation, member)
        return {} if found is None else found

    def _block(self) -> Mapping[str, Any]:
        found = self.asked.one(
            "get_public_access_block", "public_access_block", *RESULT_TYPES, Bucket=self.name
        )
        if not isinstance(found, dict):
            return {}
        block: Mapping[str, Any] = found["PublicAccessBlockConfiguration"]
        self.into.add(
            "public_access_block",
            {
                "bucket": self.name,
                "block_acls": block.get("BlockPublicAcls", False),
                "ignore_acls": block.get("IgnorePublicAcls", False),
                "block_policy": block.get("BlockPublicPolicy", False),
                "restrict_policy": block.get("RestrictPublicBuckets", False),
            },
        )
        return block

    def _settings(self, sent: Setting) -> None:
        name, into = self.name, self.into
        rules = self.ask("get_bucket_lifecycle_configuration", "lifecycle_rule")
        for rule in rules.get("Rules", ()) if isinstance(rules, dict) else ():
            row, more = _lifecycle(rule)
            into.add("lifecycle_rule", {"bucket": name, **row})
            if more:
                self.other[f"lifecycle {rule.get('ID')}"] = more
        cors = self.ask("get_bucket_cors", "cors_rule")
        for place, each in enumerate(cors.get("CORSRules", ()) if isinstance(cors, dict) else ()):
            row = {
                "origins": each.get("AllowedOrigins") or [],
                "methods": each.get("AllowedMethods") or [],
                "headers": each.get("AllowedHeaders") or [],
                "exposed": each.get("ExposeHeaders") or [],
                "max_age_seconds": each.get("MaxAgeSeconds"),
            }
            into.add("cors_rule", {"bucket": name, "number": place, **row})
        for kind in ("Topic", "Queue", "LambdaFunction") if isinstance(sent, dict) else ():
            for each in sent.get(f"{kind}Configurations", ()) if isinstance(sent, dict) else ():
                target = next((v for n, v in each.items() if n.endswith("Arn")), "")
                row = {"id": each.get("Id"), "target": target, "events": each.get("Events") or []}
                into.add("notification", {"bucket": name, **row, "filter": each.get("Filter", {})})
        for operation, member in (
            ("list_bucket_inventory_configurations", "InventoryConfigurationList"),
            ("list_bucket_analytics_configurations", "AnalyticsConfigurationList"),
            ("list_bucket_metrics_configurations", "MetricsConfigurationList"),
            (
                "list_bucket_intelligent_tiering_configurations",
                "IntelligentTieringConfigurationList",
            ),
        ):
            found = self.ask(operation)
            listed = found.get(member, ()) if isinstance(found, dict) else ()
            if isinstance(found, Unobserved) or (listed and "inventory" not in operation):
                self.other[member] = found if isinstance(found, Unobserved) else listed
            elif isinstance(found, dict):
                for each in listed:
                    row = {"bucket": name, "id": each["Id"], "settings": rest(each, "Id")}
                    into.add("inventory", row)

    def _objects(self, contents: Contents, block: Mapping[str, Any], *, has_lists: bool) -> None:
        ignores = bool(block.get("IgnorePublicAcls"))
        for number, (version, is_marker) in enumerate(self._versions()):
            if number >= MAX_ROWS:
                self.into.miss(f"more than {MAX_ROWS} versions are in {self.name}", *_OBJECTS)
                return
            key, stamp = version["Key"], version["VersionId"]
            place = {"bucket": self.name, "key": key, "version": stamp}
            named = {"Bucket": self.name, "Key": key, "VersionId": stamp}
            content = _nothing() if is_marker else self._content(version, named, contents)
            row = {**place, **content, "modified_at": version["LastModified"]}
            self.into.add("object_version", {**row, "is_delete_marker": is_marker})
            is_latest = bool(version.get("IsLatest"))
            if is_marker:
                continue
            if is_latest:
                self.into.add("object", row)
            acl = self.asked.one("get_object_acl", "object_grant", *RESULT_TYPES, **named)
            for grantee, permission in _grants_of(acl):
                self.into.add(
                    "object_grant", {**place, "grantee": grantee, "permission": permission}
                )
                if has_lists and is_heeded(grantee, ignores):
                    more = "" if is_latest else f"?versionId={stamp}"
                    arn = f"arn:aws:s3:::{self.name}/{key}{more}"
                    self.rights.lists += by_object_list(grantee, permission, arn)

    def _versions(self) -> Iterator[tuple[Mapping[str, Any], bool]]:
        types = (*_OBJECTS, *RESULT_TYPES)
        for member, is_marker in (("Versions", False), ("DeleteMarkers", True)):
            for each in self.asked.each("list_object_versions", member, *types, Bucket=self.name):
                yield each, is_marker

    def _content(
        self, version: Mapping[str, Any], named: dict[str, Any], contents: Contents
    ) -> dict[str, Any]:
        at = (*named.values(), str(version.get("ETag")), str(version["LastModified"]))
        if at not in contents:
            answer = self.asked.one("get_object", **named)
            contents[at] = _read(answer) if isinstance(answer, dict) else _unread(answer)
        tags = self.asked.one("get_object_tagging", **named)
        held = tags_of(tags.get("TagSet")) if isinstance(tags, dict) else tags
        return {**contents[at], "tags": {} if held is None else held}

    def _uploads(self) -> None:
        for each in self.asked.each(
            "list_multipart_uploads", "Uploads", "upload", Bucket=self.name
        ):
            named = {"Bucket": self.name, "Key": each["Key"], "UploadId": each["UploadId"]}
            parts = [
                {"number": part["PartNumber"], "size": part["Size"], "digest": part["ETag"]}
                for part in self.asked.each("list_parts", "Parts", "upload", **named)
            ]
            row = {"bucket": self.name, "id": each["UploadId"], "key": each["Key"], "parts": parts}
            more = rest(each, "UploadId", "Key", "Initiated", "Owner", "Initiator")
            self.into.add("upload", {**row, "metadata": {}, "tags": {}, "settings": more})


def _grants_of(acl: Any) -> Iterator[tuple[str, str]]:
    """The grants of an access list beside the owner's full control, or that the owner lacks it."""
    if not isinstance(acl, dict):
        return
    owner = acl.get("Owner", {}).get("ID")
    found = {
        (
            grantee_of(each["Grantee"].get("URI"), each["Grantee"].get("ID"), owner),
            each["Permission"],
        )
        for each in acl.get("Grants", ())
    }
    yield from sorted(found ^ {("owner", "FULL_CONTROL")})


def _lifecycle(rule: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The row of a rule, and what it says beside."""
    narrowed = rule.get("Filter") or {}
    both = narrowed.get("And") or {}
    tags = [*both.get("Tags", ()), *([narrowed["Tag"]] if "Tag" in narrowed else ())]
    expires = rule.get("Expiration") or {}
    prefixes = (rule.get("Prefix"), narrowed.get("Prefix"), both.get("Prefix"))
    old, aborts = "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"
    row = {
        "id": rule.get("ID"),
        "status": rule.get("Status"),
        "prefix": next((each for each in prefixes if each), None),
        "tags": sorted(f"{tag['Key']}={tag['Value']}" for tag in tags),
        "expire_days": expires.get("Days"),
        "expire_date": None if expires.get("Date") is None else str(expires["Date"]),
        "expire_markers": _truth(expires.get("ExpiredObjectDeleteMarker")),
        "expire_noncurrent_days": (rule.get(old) or {}).get("NoncurrentDays"),
        "abort_uploads_days": (rule.get(aborts) or {}).get("DaysAfterInitiation"),
        "transitions": rule.get("Transitions") or [],
        "noncurrent_transitions": rule.get("NoncurrentVersionTransitions") or [],
    }
    more = {
        **rest(rule, "ID", "Status", "Prefix", "Filter", "Expiration", old, aborts),
        **rest(rule.get(old) or {}, "NoncurrentDays"),
        **rest(narrowed, "And", "Tag", "Prefix"),
        **rest(both, "Tags", "Prefix"),
    }
    return row, rest(more, "Transitions", "NoncurrentVersionTransitions")


def _truth(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()


def _nothing() -> dict[str, Any]:
    """The content of a delete marker."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("size", "digest", "text", "content_type", "storage_class", "redirect")
    )
    return nothing | {name: {} for name in ("metadata", "encryption", "lock", "tags")}


def _unread(why: Unobserved | None) -> dict[str, Any]:
    """The content of an object that may not be read, or is gone."""
    cause = why or Unobserved("it was gone when it was to be read")
    return dict.fromkeys(_nothing(), cause)


def _read(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The stored content, and the headers with which it is served."""
    hasher, size, start = hashlib.sha256(), 0, b""
    for block in answer["Body"].iter_chunks(_BLOCK_BYTES):
        hasher.update(block)
        size += len(block)
        start = start if len(start) > MAX_TEXT_BYTES else start + block
    text = None
    if size <= MAX_TEXT_BYTES:
        try:
            text = start.decode()
        except UnicodeDecodeError:
            text = None
    headers = {n: answer[n] for n in _HEADERS if answer.get(n)}
    kept = {"Expires": str(answer["Expires"])} if answer.get("Expires") else {}
    lock = {
        "mode": answer.get("ObjectLockMode"),
        "until": answer.get("ObjectLockRetainUntilDate"),
        "hold": answer.get("ObjectLockLegalHoldStatus"),
    }
    encryption = {
        "kind": answer.get("ServerSideEncryption"),
        "key": answer.get("SSEKMSKeyId"),
        "bucket_key": answer.get("BucketKeyEnabled"),
    }
    more = rest(answer, *_OF_CONTENT, *_HEADERS)
    return {
        "size": size,
        "digest": hasher.hexdigest(),
        "text": text,
        "content_type": answer.get("ContentType"),
        "metadata": {**answer.get("Metadata", {}), **headers, **kept, **more},
        "storage_class": answer.get("StorageClass", "STANDARD"),
        "encryption": rest(encryption),
        "lock": rest(lock),
        "redirect": answer.get("WebsiteRedirectLocation"),
    }
