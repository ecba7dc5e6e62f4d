"""Ways to change an account of AWS, by topic: an operation, and arguments that a seed draws."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.benchmarks.cloud_account import Account, document_of
from lab.benchmarks.hostile_places import pick

Given = dict[str, Any]
Way = Callable[[Account], Given]
"""The arguments of an operation, for an account."""

_GROUPS: Final = "http://acs.amazonaws.com/groups/"
ARN: Final = "arn:aws:iam::123456789012"
_QUEUE: Final = "arn:aws:sqs:us-east-1:123456789012"


# Arguments


def in_bucket(account: Account, **more: Any) -> Given:
    """Arguments about a bucket."""
    return {"Bucket": account.chosen("bucket"), **more}


def _object(account: Account, **more: Any) -> Given:
    return in_bucket(account, Key=account.version()["Key"], **more)


def _version(account: Account, **more: Any) -> Given:
    return _object(account, VersionId=account.version()["VersionId"], **more)


def word(account: Account) -> str:
    """A name that nothing has."""
    return f"z{account.rng.randrange(10**5)}"


def _tag(account: Account) -> list[Given]:
    return [{"Key": account.rng.choice(["owner", "kind", "z"]), "Value": word(account)}]


def _list_of_rights(account: Account) -> Given:
    """A canned access list, or grants of one's own beside the owner's."""
    canned = ("public-read", "public-read-write", "authenticated-read", "log-delivery-write")
    if account.rng.random() < 0.6:
        return {"ACL": account.rng.choice(canned)}
    uri = _GROUPS + account.rng.choice(["global/AllUsers", "global/AuthenticatedUsers"])
    header = account.rng.choice(["GrantRead", "GrantReadACP", "GrantWriteACP", "GrantFullControl"])
    return {header: account.rng.choice([f'uri="{uri}"', f'id="{"ab" * 32}"'])}


def _switches(account: Account) -> Given:
    names = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    return {name: account.rng.random() < 0.5 for name in names}


def _notified(account: Account) -> Given:
    events = [account.rng.choice(["s3:ObjectCreated:*", "s3:ObjectRemoved:*"])]
    function = "arn:aws:lambda:us-east-1:123456789012:function:z"
    return account.rng.choice(
        [
            {"QueueConfigurations": [{"QueueArn": f"{_QUEUE}:orders", "Events": events}]},
            {"LambdaFunctionConfigurations": [{"LambdaFunctionArn": function, "Events": events}]},
            {"EventBridgeConfiguration": {}},
        ]
    )


def _encrypted(account: Account) -> Given:
    one: Given = {"SSEAlgorithm": "AES256"}
    if account.rng.random() < 0.5:
        one = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": f"alias/{word(account)}"}
    rule = {
        "ApplyServerSideEncryptionByDefault": one,
        "BucketKeyEnabled": bool(account.rng.randrange(2)),
    }
    return {"Rules": [rule]}


def _cross_origin(account: Account) -> Given:
    origin = account.rng.choice(["*", f"https://{word(account)}.example"])
    return {"CORSRules": [{"AllowedOrigins": [origin], "AllowedMethods": ["GET", "PUT"]}]}


def _copied_elsewhere(account: Account) -> Given:
    rule = {
        "ID": word(account),
        "Status": "Enabled",
        "Priority": 1,
        "Filter": {"Prefix": ""},
        "DeleteMarkerReplication": {"Status": "Disabled"},
        "Destination": {"Bucket": "arn:aws:s3:::elsewhere"},
    }
    return {"Role": f"{ARN}:role/{account.chosen('role')}", "Rules": [rule]}


def _listed_elsewhere(account: Account) -> Given:
    goal = {"Bucket": "arn:aws:s3:::elsewhere", "Format": "CSV"}
    made = {
        "Id": word(account),
        "IsEnabled": True,
        "IncludedObjectVersions": "All",
        "Schedule": {"Frequency": "Daily"},
        "Destination": {"S3BucketDestination": goal},
    }
    return in_bucket(account, Id=made["Id"], InventoryConfiguration=made)


def _new_bucket(account: Account) -> Given:
    more: list[Given] = [
        {},
        {"ObjectLockEnabledForBucket": True},
        {"ACL": "public-read"},
        {"ObjectOwnership": "ObjectWriter"},
    ]
    return {"Bucket": f"fernway-{word(account)}", **account.rng.choice(more)}


def _deleted_many(account: Account) -> Given:
    one = {"Key": account.version()["Key"], "VersionId": account.version()["VersionId"]}
    if account.rng.random() < 0.5:
        del one["VersionId"]
    return in_bucket(account, Delete={"Objects": [one]})


def _copied(account: Account) -> Given:
    goal = Account.chosen(account, "bucket")
    source = {"Bucket": goal, "Key": account.version()["Key"]}
    return {"Bucket": goal, "Key": f"copy/{word(account)}", "CopySource": source}


def _holder(kind: str) -> Way:
    return lambda account: {f"{kind.title()}Name": account.chosen(kind)}


def _inline(kind: str) -> Way:
    def given(account: Account) -> Given:
        document = document_of(account, is_of_resource=False)
        name = account.rng.choice(["z", "write-intake", "operate", "upload", "queues"])
        return {**_holder(kind)(account), "PolicyName": name, "PolicyDocument": document}

    return given


def _named_inline(kind: str) -> Way:
    def given(account: Account) -> Given:
        held = account.asked("iam", f"List{kind.title()}Policies", **_holder(kind)(account))
        return {
            **_holder(kind)(account),
            "PolicyName": pick(held.get("PolicyNames", []), account.rng),
        }

    return given


def _managed(kind: str, *, is_held: bool) -> Way:
    def given(account: Account) -> Given:
        arn = account.chosen("policy")
        if is_held:
            name = f"ListAttached{kind.title()}Policies"
            held = account.asked("iam", name, **_holder(kind)(account)).get("AttachedPolicies", [])
            arn = pick(held, account.rng)["PolicyArn"]
        return {**_holder(kind)(account), "PolicyArn": arn}

    return given


def _membership(*, is_held: bool) -> Way:
    def given(account: Account) -> Given:
        user = account.chosen("user")
        group = account.chosen("group")
        if is_held:
            held = account.asked("iam", "ListGroupsForUser", UserName=user).get("Groups", [])
            group = pick(held, account.rng)["GroupName"]
        return {"GroupName": group, "UserName": user}

    return given


def _policy_version(account: Account, **more: Any) -> Given:
    arn = account.chosen("policy")
    held = account.asked("iam", "ListPolicyVersions", PolicyArn=arn).get("Versions", [])
    return {"PolicyArn": arn, "VersionId": pick(held, account.rng)["VersionId"], **more}


def _new_role(account: Account) -> Given:
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": f"{ARN}:user/{account.chosen('user')}"},
        "Action": "sts:AssumeRole",
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    more: list[Given] = [{}, {"Path": "/z/"}, {"PermissionsBoundary": account.chosen("policy")}]
    name = {"RoleName": word(account), "AssumeRolePolicyDocument": document}
    return {**name, **account.rng.choice(more)}


def other_trust(account: Account) -> Given:
    """Another trust policy for a role."""
    made = _new_role(account)
    trust = json.loads(made["AssumeRolePolicyDocument"])
    trust["Statement"][0]["Principal"] = account.rng.choice(
        [
            {"AWS": "*"},
            {"AWS": "arn:aws:iam::210987654321:root"},
            trust["Statement"][0]["Principal"],
        ]
    )
    return {"RoleName": account.chosen("role"), "PolicyDocument": json.dumps(trust)}


def _device(account: Account) -> Given:
    user = account.chosen("user")
    codes = {"AuthenticationCode1": "123456", "AuthenticationCode2": "654321"}
    return {"UserName": user, "SerialNumber": word(account).ljust(12, "0"), **codes}


def _key(account: Account) -> Given:
    return {"UserName": account.chosen("user"), "AccessKeyId": account.chosen("key")}


def _other_status(account: Account) -> Given:
    return {**_key(account), "Status": account.rng.choice(["Active", "Inactive"])}


def _attribute(account: Account) -> Given:
    queue = account.chosen("queue")
    to = json.dumps({"deadLetterTargetArn": f"{_QUEUE}:reports", "maxReceiveCount": 1})
    allowed = json.dumps({"redrivePermission": account.rng.choice(["denyAll", "allowAll"])})
    name, value = account.rng.choice(
        [
            ("VisibilityTimeout", "31"),
            ("MessageRetentionPeriod", "60"),
            ("DelaySeconds", "9"),
            ("MaximumMessageSize", "2048"),
            ("ReceiveMessageWaitTimeSeconds", "5"),
            ("KmsMasterKeyId", "alias/z"),
            ("SqsManagedSseEnabled", "false"),
            ("Policy", document_of(account, is_of_resource=True)),
            ("RedrivePolicy", ""),
            ("RedrivePolicy", to),
            ("RedriveAllowPolicy", allowed),
        ]
    )
    return {"QueueUrl": queue, "Attributes": {name: value}}


def _queue(account: Account, **more: Any) -> Given:
    return {"QueueUrl": account.chosen("queue"), **more}


def _received(account: Account, **more: Any) -> Given:
    return _queue(account, ReceiptHandle=account.chosen("receipt"), **more)


def _allowed_queue(account: Account) -> Given:
    accounts, actions = (
        ["210987654321"],
        [account.rng.choice(["SendMessage", "ReceiveMessage", "*"])],
    )
    return _queue(account, Label=word(account), AWSAccountIds=accounts, Actions=actions)


def _moved(account: Account) -> Given:
    to = account.rng.choice(["orders", "reports", "invoices"])
    return {"SourceArn": f"{_QUEUE}:orders-dead", "DestinationArn": f"{_QUEUE}:{to}"}


# Ways by topic


PUBLIC_ACCESS: Final[Mapping[str, Way]] = {
    "PutPublicAccessBlock": lambda a: in_bucket(a, PublicAccessBlockConfiguration=_switches(a)),
    "DeletePublicAccessBlock": in_bucket,
    "PutBucketAcl": lambda a: in_bucket(a, **_list_of_rights(a)),
    "PutObjectAcl": lambda a: _object(a, **_list_of_rights(a)),
    "PutBucketPolicy": lambda a: in_bucket(a, Policy=document_of(a, is_of_resource=True)),
    "DeleteBucketPolicy": in_bucket,
    "PutBucketOwnershipControls": lambda a: in_bucket(
        a,
        OwnershipControls={
            "Rules": [{"ObjectOwnership": a.rng.choice(["ObjectWriter", "BucketOwnerEnforced"])}]
        },
    ),
}
SETTINGS: Final[Mapping[str, Way]] = {
    "PutBucketVersioning": lambda a: in_bucket(
        a, VersioningConfiguration={"Status": a.rng.choice(["Enabled", "Suspended"])}
    ),
    "PutBucketEncryption": lambda a: in_bucket(a, ServerSideEncryptionConfiguration=_encrypted(a)),
    "PutBucketNotificationConfiguration": lambda a: in_bucket(
        a, NotificationConfiguration=_notified(a), SkipDestinationValidation=True
    ),
    "PutBucketCors": lambda a: in_bucket(a, CORSConfiguration=_cross_origin(a)),
    "DeleteBucketCors": in_bucket,
    "PutBucketReplication": lambda a: in_bucket(a, ReplicationConfiguration=_copied_elsewhere(a)),
    "PutBucketTagging": lambda a: in_bucket(a, Tagging={"TagSet": _tag(a)}),
    "DeleteBucketTagging": in_bucket,
    "PutBucketWebsite": lambda a: in_bucket(
        a, WebsiteConfiguration={"IndexDocument": {"Suffix": word(a)}}
    ),
    "PutBucketAccelerateConfiguration": lambda a: in_bucket(
        a, AccelerateConfiguration={"Status": "Enabled"}
    ),
    "PutBucketInventoryConfiguration": _listed_elsewhere,
    "DeleteBucketLifecycle": in_bucket,
    "PutObjectLockConfiguration": lambda a: in_bucket(
        a,
        ObjectLockConfiguration={
            "ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": a.rng.randrange(1, 90)}},
        },
    ),
    "CreateBucket": _new_bucket,
}
OBJECTS: Final[Mapping[str, Way]] = {
    "DeleteObject": lambda a: a.rng.choice([_object, _version])(a),
    "DeleteObjects": _deleted_many,
    "CopyObject": _copied,
    "PutObjectTagging": lambda a: _object(a, Tagging={"TagSet": _tag(a)}),
    "DeleteObjectTagging": _object,
    "PutObjectLegalHold": lambda a: _object(a, LegalHold={"Status": "ON"}),
    "PutObjectRetention": lambda a: _object(
        a, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": "2027-01-01T00:00:00Z"}
    ),
    "CreateMultipartUpload": lambda a: in_bucket(
        a, Key=word(a), **a.rng.choice([{}, {"ACL": "public-read"}, {"Metadata": {"z": "1"}}])
    ),
}
POLICIES: Final[Mapping[str, Way]] = {
    "CreatePolicy": lambda a: {
        "PolicyName": word(a),
        "PolicyDocument": document_of(a, is_of_resource=False),
    },
    "CreatePolicyVersion": lambda a: {
        "PolicyArn": a.chosen("policy"),
        "PolicyDocument": document_of(a, is_of_resource=False),
        "SetAsDefault": a.rng.random() < 0.5,
    },
    "SetDefaultPolicyVersion": _policy_version,
    "DeletePolicyVersion": _policy_version,
    "TagPolicy": lambda a: {"PolicyArn": a.chosen("policy"), "Tags": _tag(a)},
    **{f"Put{kind}Policy": _inline(kind.lower()) for kind in ("User", "Group", "Role")},
    **{f"Delete{kind}Policy": _named_inline(kind.lower()) for kind in ("User", "Group", "Role")},
    **{f"Attach{k}Policy": _managed(k.lower(), is_held=False) for k in ("User", "Group", "Role")},
    **{f"Detach{k}Policy": _managed(k.lower(), is_held=True) for k in ("User", "Group", "Role")},
    "PutRolePermissionsBoundary": lambda a: {
        "RoleName": a.chosen("role"),
        "PermissionsBoundary": a.chosen("policy"),
    },
}
IDENTITIES: Final[Mapping[str, Way]] = {
    "CreateUser": lambda a: {"UserName": word(a), "Path": a.rng.choice(["/", "/z/"])},
    "CreateGroup": lambda a: {"GroupName": word(a)},
    "CreateRole": _new_role,
    "AddUserToGroup": _membership(is_held=False),
    "RemoveUserFromGroup": _membership(is_held=True),
    "UpdateAssumeRolePolicy": other_trust,
    "UpdateRole": lambda a: {"RoleName": a.chosen("role"), "MaxSessionDuration": 43200},
    "TagUser": lambda a: {"UserName": a.chosen("user"), "Tags": _tag(a)},
    "TagRole": lambda a: {"RoleName": a.chosen("role"), "Tags": _tag(a)},
    "UpdateUser": lambda a: {"UserName": a.chosen("user"), "NewUserName": word(a)},
    "CreateInstanceProfile": lambda a: {"InstanceProfileName": word(a)},
    "CreateAccountAlias": lambda a: {"AccountAlias": word(a)},
    "UpdateAccountPasswordPolicy": lambda a: {"MinimumPasswordLength": a.rng.randrange(6, 20)},
}
CREDENTIALS: Final[Mapping[str, Way]] = {
    "CreateAccessKey": _holder("user"),
    "DeleteAccessKey": _key,
    "UpdateAccessKey": _other_status,
    "CreateLoginProfile": lambda a: {"UserName": a.chosen("user"), "Password": word(a)},
    "UpdateLoginProfile": lambda a: {"UserName": a.chosen("user"), "Password": word(a)},
    "DeleteLoginProfile": _holder("user"),
    "EnableMFADevice": _device,
    "CreateVirtualMFADevice": lambda a: {"VirtualMFADeviceName": word(a)},
    "UploadSSHPublicKey": lambda a: {
        "UserName": a.chosen("user"),
        "SSHPublicKeyBody": f"ssh-rsa {word(a)}",
    },
    "UploadServerCertificate": lambda a: {
        "ServerCertificateName": word(a),
        "CertificateBody": "z",
        "PrivateKey": "z",
    },
}
QUEUES: Final[Mapping[str, Way]] = {
    "SetQueueAttributes": _attribute,
    "AddPermission": _allowed_queue,
    "TagQueue": lambda a: _queue(a, Tags={"owner": word(a)}),
    "UntagQueue": lambda a: _queue(a, TagKeys=["owner"]),
    "CreateQueue": lambda a: {"QueueName": word(a)},
    "DeleteQueue": _queue,
    "PurgeQueue": _queue,
    "SendMessage": lambda a: _queue(a, MessageBody=word(a)),
    "ReceiveMessage": lambda a: _queue(a, VisibilityTimeout=a.rng.choice([0, 600])),
    "ChangeMessageVisibility": lambda a: _received(a, VisibilityTimeout=a.rng.choice([0, 900])),
    "DeleteMessage": _received,
    "StartMessageMoveTask": _moved,
}
