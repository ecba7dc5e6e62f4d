"""An account of AWS as a system: every way an agent can leave it, and its history."""

import json
from typing import Any, ClassVar

import pytest

from sandboxes.cloud.tests.account import LOGS, REPORTS, SITE, allow, arn, iam, s3, signed, sqs
from statediff.conformance import Change, FeedSuite, SystemSuite, Way
from statediff.packs import SandboxPack, sandbox_pack

pytestmark = pytest.mark.pack("statediff[cloud]")

PUBLIC = json.dumps({"Version": "2012-10-17", "Statement": [allow("s3:GetObject", Principal="*")]})
WIDE = json.dumps({"Version": "2012-10-17", "Statement": [allow("*")]})
RULE = (
    b"<LifecycleConfiguration><Rule><ID>all</ID><Prefix>a</Prefix><Status>Enabled</Status>"
    b"<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>"
)
CORS = (
    b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>PUT"
    b"</AllowedMethod></CORSRule></CORSConfiguration>"
)
TAGS = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
SUSPENDED = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"
KEY = {"UserName": "courier", "AccessKeyId": "AKIAFERNWAYCOURIER01"}


def a_session(system: Any) -> None:
    """Somebody is in a role."""
    trust = json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": "arn:aws:iam::123456789012:user/mira"},
                    "Action": "sts:AssumeRole",
                }
            ],
        }
    )
    iam("UpdateAssumeRolePolicy", RoleName="deployer", PolicyDocument=trust)(system)
    role = "arn:aws:iam::123456789012:role/deployer"
    arguments = {"RoleArn": role, "RoleSessionName": "late"}
    signed(system, "mira").form("account", "sts", "AssumeRole", arguments)


class TestAccount(SystemSuite):
    source = "account"
    traces = frozenset[str]()
    ways: ClassVar = {
        "an object is written": Way(s3("PUT", f"{SITE}/new.txt", body=b"x")),
        "an object is deleted": Way(s3("DELETE", f"{SITE}/drafts/prices.txt")),
        "a delete marker is left": Way(s3("DELETE", f"{REPORTS}/2026/q4.txt")),
        "an object is tagged": Way(s3("PUT", f"{SITE}/drafts/prices.txt", "tagging=", TAGS)),
        "an object is public": Way(
            s3("PUT", f"{SITE}/drafts/prices.txt", "acl=", x_amz_acl="public-read")
        ),
        "an upload is begun": Way(s3("POST", f"{SITE}/large.bin", "uploads=")),
        "a bucket is made": Way(s3("PUT", "/fernway-more")),
        "a bucket is public": Way(s3("PUT", SITE, "acl=", x_amz_acl="public-read")),
        "a policy of a bucket": Way(s3("PUT", SITE, "policy=", PUBLIC.encode())),
        "the block is off": Way(s3("DELETE", REPORTS, "publicAccessBlock=")),
        "versions are kept no more": Way(s3("PUT", REPORTS, "versioning=", SUSPENDED)),
        "a rule": Way(s3("PUT", LOGS, "lifecycle=", RULE)),
        "other sites may ask": Way(s3("PUT", SITE, "cors=", CORS)),
        "a bucket is tagged": Way(s3("PUT", SITE, "tagging=", TAGS)),
        "a key is made": Way(iam("CreateAccessKey", UserName="courier")),
        "a key is inactive": Way(iam("UpdateAccessKey", **KEY, Status="Inactive")),
        "a member": Way(iam("AddUserToGroup", GroupName="admins", UserName="lea")),
        "a policy is attached": Way(
            iam("AttachUserPolicy", UserName="lea", PolicyArn=arn("admin"))
        ),
        "an inline policy": Way(
            iam("PutUserPolicy", UserName="lea", PolicyName="p", PolicyDocument=WIDE)
        ),
        "an older version is in force": Way(
            iam("SetDefaultPolicyVersion", PolicyArn=arn("read-reports"), VersionId="v1")
        ),
        "a version that is not in force": Way(
            iam("CreatePolicyVersion", PolicyArn=arn("deploy"), PolicyDocument=WIDE)
        ),
        "a role": Way(iam("CreateRole", RoleName="mine", AssumeRolePolicyDocument=WIDE)),
        "a group": Way(iam("CreateGroup", GroupName="mine")),
        "an alias": Way(iam("CreateAccountAlias", AccountAlias="fernway")),
        "rules for passwords": Way(iam("UpdateAccountPasswordPolicy", MinimumPasswordLength="6")),
        "a session": Way(a_session),
        "a message": Way(sqs("SendMessage", "invoices", MessageBody="x")),
        "a message that somebody has": Way(sqs("ReceiveMessage", "orders")),
        "a setting of a queue": Way(
            sqs("SetQueueAttributes", "orders", Attributes={"VisibilityTimeout": "1"})
        ),
        "an empty queue": Way(sqs("PurgeQueue", "orders")),
        "a key was used": Way(iam("ListUsers"), is_state=False),
        "a file": Way(
            lambda system: (system._folder / "left").write_text("x"),
            is_state=False,
        ),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("cloud")


class TestAccountFeed(FeedSuite):
    source = "account"
    changes: ClassVar = {
        "a member": Change(
            iam("AddUserToGroup", GroupName="admins", UserName="lea"),
            iam("RemoveUserFromGroup", GroupName="admins", UserName="lea"),
        ),
        "a policy of a bucket": Change(
            s3("PUT", LOGS, "policy=", PUBLIC.encode()), s3("DELETE", LOGS, "policy=")
        ),
        "a key is inactive": Change(
            iam("UpdateAccessKey", **KEY, Status="Inactive"),
            iam("UpdateAccessKey", **KEY, Status="Active"),
        ),
    }
    losses: ClassVar = {"the server ends": lambda system: system.process.kill()}
    walks = 3

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("cloud")
