"""An account as a pack's seed describes it, made in moto's memory. Runs in the server's process.

A seed names groups, policies, users, roles, buckets and queues; what it does not say is as a new
one is. Every moment is the seed's own (`at`, or the moment of the whole), and names that moto draws
at random are drawn from the seed of `mock_random`, so that one seed is one state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from moto.iam.models import IAMBackend, iam_backends
from moto.moto_api._internal import mock_random
from moto.s3.models import FakeBucket, S3Backend, get_canned_acl, s3_backends
from moto.sqs.models import Message, sqs_backends

from statediff_cloud.policies import canonical

Described = Mapping[str, Any]
REGION = "us-east-1"


class SeedError(Exception):
    """The seed asks for what the server does not make."""


def make(seed: Described, account: str) -> None:
    """The account holds what the seed says, and nothing else."""
    mock_random.seed(str(seed.get("random", "seed")))
    moment = _moment(seed["at"])
    iam = iam_backends[account]["aws"]
    try:
        _identities(seed, iam, account, moment)
        for name, each in seed.get("buckets", {}).items():
            _bucket(name, each, s3_backends[account]["aws"], moment)
        _queues(seed.get("queues", {}), account, moment)
    except KeyError as error:
        raise SeedError(f"the seed lacks {error}") from error
    mock_random.seed()


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)


def _tags(described: Described) -> list[dict[str, str]]:
    return [{"Key": name, "Value": value} for name, value in described.get("tags", {}).items()]


def _identities(seed: Described, iam: IAMBackend, account: str, moment: datetime) -> None:
    for name, each in seed.get("policies", {}).items():
        first, *later = each["versions"]
        description = each.get("description", "")
        policy = iam.create_policy(description, "/", canonical(first), name, [])
        for document in later:
            iam.create_policy_version(policy.arn, canonical(document), set_as_default=False)
        policy.update_default_version(f"v{each.get('default', 1)}")
        policy.create_date = policy.update_date = moment
        for version in policy.versions:
            version.create_date = moment
    for name, each in seed.get("groups", {}).items():
        iam.create_group(name).create_date = moment
        for policy_name, document in each.get("inline", {}).items():
            iam.put_group_policy(name, policy_name, canonical(document))
        for policy_name in each.get("attached", ()):
            iam.attach_group_policy(_policy_arn(account, policy_name), name)
    for name, each in seed.get("users", {}).items():
        _user(name, each, iam, account, moment)
    for name, each in seed.get("roles", {}).items():
        role = iam.create_role(
            name, canonical(each["trust"]), "/", None, each.get("description"), _tags(each), "3600"
        )
        role.create_date = moment
        for policy_name, document in each.get("inline", {}).items():
            iam.put_role_policy(name, policy_name, canonical(document))
        for policy_name in each.get("attached", ()):
            iam.attach_role_policy(_policy_arn(account, policy_name), name)


def _policy_arn(account: str, name: str) -> str:
    return f"arn:aws:iam::{account}:policy/{name}"


def _user(name: str, each: Described, iam: IAMBackend, account: str, moment: datetime) -> None:
    user = iam.create_user(REGION, name, "/", _tags(each))
    user.create_date = moment
    for group in each.get("groups", ()):
        iam.add_user_to_group(group, name)
    for policy_name, document in each.get("inline", {}).items():
        iam.put_user_policy(name, policy_name, canonical(document))
    for policy_name in each.get("attached", ()):
        iam.attach_user_policy(_policy_arn(account, policy_name), name)
    if each.get("password"):
        iam.create_login_profile(name, mock_random.token_urlsafe(16))
    for described in each.get("keys", ()):
        key = iam.create_access_key(name, "AKIA", described.get("status", "Active"))
        del iam.access_keys[key.access_key_id]
        key.access_key_id = described["id"]
        iam.access_keys[key.access_key_id] = key
        key.create_date = _moment(described["at"]) if "at" in described else moment


def _bucket(name: str, each: Described, backend: S3Backend, moment: datetime) -> None:
    bucket = backend.create_bucket(name, REGION)
    bucket.creation_date = moment.replace(tzinfo=UTC)
    bucket.versioning_status = each.get("versioning")
    if "policy" in each:
        backend.put_bucket_policy(name, canonical(each["policy"]).encode())
    bucket.set_acl(get_canned_acl(each.get("acl", "private")))
    if "public_access_block" in each:
        backend.put_public_access_block(name, each["public_access_block"])
    if "lifecycle" in each:
        backend.put_bucket_lifecycle(name, each["lifecycle"])
    if "cors" in each:
        backend.put_bucket_cors(name, each["cors"])
    if "tags" in each:
        backend.put_bucket_tagging(name, each["tags"])
    if "encryption" in each:
        backend.put_bucket_encryption(name, each["encryption"])
    for described in each.get("objects", ()):
        for version in _versions(described):
            _object(bucket, described["key"], version, backend, moment)


def _versions(described: Described) -> Iterator[Described]:
    """The versions of an object, from the first; what they do not say, the object says."""
    common = {n: value for n, value in described.items() if n not in ("versions", "key")}
    for version in described.get("versions", ({},)):
        yield {**common, **version}


def _object(
    bucket: FakeBucket, key: str, version: Described, backend: S3Backend, moment: datetime
) -> None:
    at = _moment(version["at"]) if "at" in version else moment
    if version.get("deleted"):
        backend.delete_object(bucket.name, key)
        bucket.keys[key].last_modified = at
        return
    made = backend.put_object(bucket.name, key, version["text"].encode())
    made.last_modified = at
    headers = {"Content-Type": version.get("type", "text/plain")}
    more = {f"x-amz-meta-{name}": value for name, value in version.get("metadata", {}).items()}
    made.set_metadata({**headers, **more})
    made.set_acl(get_canned_acl(version.get("acl", "private")))
    if "tags" in version:
        backend.put_object_tagging(made, version["tags"])


def _queues(queues: Described, account: str, moment: datetime) -> None:
    backend = sqs_backends[account][REGION]
    arns = {name: f"arn:aws:sqs:{REGION}:{account}:{name}" for name in queues}
    # What dead letters go to is there before what has them.
    for name in sorted(queues, key=lambda name: "dead_letters_to" in queues[name]):
        each = queues[name]
        settings = dict(each.get("settings", {}))
        if "dead_letters_to" in each:
            target = {
                "deadLetterTargetArn": arns[each["dead_letters_to"]],
                "maxReceiveCount": each["max_receives"],
            }
            settings["RedrivePolicy"] = canonical(target)
        if "policy" in each:
            settings["Policy"] = canonical(each["policy"])
        queue = backend.create_queue(name, each.get("tags"), region=REGION, **settings)
        queue.created_timestamp = queue.last_modified_timestamp = _seconds(moment)
        for described in each.get("messages", ()):
            message = Message(str(mock_random.uuid4()), described["body"])
            message.message_attributes = {
                key: {"DataType": "String", "StringValue": value}
                for key, value in described.get("attributes", {}).items()
            }
            at = _seconds(_moment(described["at"]) if "at" in described else moment)
            held: Any = message
            held.sent_timestamp = int(at * 1000)
            message.approximate_receive_count = described.get("receives", 0)
            if message.approximate_receive_count:
                message.approximate_first_receive_timestamp = int(at * 1000) + 1000
            queue.add_message(message)


def _seconds(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()
