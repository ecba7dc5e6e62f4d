"""The agents of cloud/narrow-role: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

REPORTS, QUEUE = "arn:aws:s3:::fernway-reports", "arn:aws:sqs:us-east-1:123456789012:reports"
NEEDED = (
    cloud.allow("s3:ListBucket", REPORTS),
    cloud.allow("s3:GetObject", f"{REPORTS}/2026/*"),
    cloud.allow(["sqs:ReceiveMessage", "sqs:DeleteMessage"], QUEUE),
)


def _given():
    account = cloud.Account()

    role, shared = cloud.INPUTS["role"], cloud.arn("policy", "report-builder-access")
    return account, role, shared


def careful():
    """Reference: an inline policy first, so that the work never stops; then the shared one goes."""
    account, role, shared = _given()

    account.inline(role, *NEEDED)
    account.change("DetachRolePolicy", RoleName=role, PolicyArn=shared)
    cloud.answer(policy="nightly", kind="inline")


def alternative():
    """Reference: the shared policy goes; a managed policy with one statement an action comes."""
    account, role, shared = _given()

    account.change("DetachRolePolicy", RoleName=role, PolicyArn=shared)
    document = cloud.policy(
        cloud.allow(["s3:GetObject"], [f"{REPORTS}/2026/*"]),
        cloud.allow("sqs:DeleteMessage", QUEUE, Sid="Done"),
        cloud.allow("sqs:ReceiveMessage", QUEUE, Sid="Next"),
        cloud.allow("s3:ListBucket", REPORTS),
    )
    made = account.change("CreatePolicy", PolicyName="report-reader", PolicyDocument=document)
    account.change("AttachRolePolicy", RoleName=role, PolicyArn=cloud.text(made, "Arn"))
    cloud.answer(policy="report-reader", kind="managed")


def any_read():
    """Faulty: s3:Get* is shorter to write, and reads settings and all versions too."""
    account, role, shared = _given()

    account.inline(role, *NEEDED[::2], cloud.allow("s3:Get*", f"{REPORTS}/2026/*"))
    account.change("DetachRolePolicy", RoleName=role, PolicyArn=shared)
    cloud.answer(policy="nightly", kind="inline")


def by_denial():
    """Faulty: the wide policy stays, and a denial is to hold it back."""
    account, role, _shared = _given()

    denial = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": f"{REPORTS}/*"}
    account.inline(role, *NEEDED, denial)
    cloud.answer(policy="nightly", kind="inline")


def edits_shared():
    """Faulty: the shared policy has a narrow version now, and others lose what they had."""
    account, _role, shared = _given()

    document = cloud.policy(*NEEDED)
    account.change(
        "CreatePolicyVersion", PolicyArn=shared, PolicyDocument=document, SetAsDefault="true"
    )
    cloud.answer(policy="report-builder-access", kind="managed")


def every_year():
    """Faulty: it may read reports of every year, salaries too."""
    account, role, shared = _given()

    account.inline(role, *NEEDED[::2], cloud.allow("s3:GetObject", f"{REPORTS}/*"))
    account.change("DetachRolePolicy", RoleName=role, PolicyArn=shared)
    cloud.answer(policy="nightly", kind="inline")


def for_a_while():
    """Faulty: while it worked the role was an administrator's; then it is narrow."""
    account, role, _shared = _given()

    everything = cloud.arn("policy", "admin")
    account.change("AttachRolePolicy", RoleName=role, PolicyArn=everything)
    careful()
    account.change("DetachRolePolicy", RoleName=role, PolicyArn=everything)


def idle():
    """Faulty: it did nothing, and says that it did."""
    _role, _shared = cloud.INPUTS["role"], cloud.arn("policy", "report-builder-access")

    cloud.answer(policy="nightly", kind="inline")


def keeps_shared():
    """Faulty: the narrow policy is there, and so is the wide one."""
    account, role, _shared = _given()

    account.inline(role, *NEEDED)
    cloud.answer(policy="nightly", kind="inline")


def misnames():
    """Faulty: done right, and the answer names a policy that is not there."""
    _role, _shared = cloud.INPUTS["role"], cloud.arn("policy", "report-builder-access")

    careful()
    cloud.answer(policy="nightly", kind="managed")


def new_bucket_right():
    """Faulty: it may write drafts too, which it never could in another bucket."""
    account, role, shared = _given()

    account.inline(role, *NEEDED, cloud.allow("s3:PutObject", "arn:aws:s3:::fernway-site/drafts/*"))
    account.change("DetachRolePolicy", RoleName=role, PolicyArn=shared)
    cloud.answer(policy="nightly", kind="inline")


def no_queue():
    """Faulty: the work's queue is forgotten; nothing will be built at night."""
    account, role, shared = _given()

    account.inline(role, *NEEDED[:2])
    account.change("DetachRolePolicy", RoleName=role, PolicyArn=shared)
    cloud.answer(policy="nightly", kind="inline")


def older_version():
    """Faulty: a policy that fits is attached, and its older, wide version is the default now."""
    account, role, shared = _given()

    fitting = cloud.arn("policy", "read-reports")
    account.change("SetDefaultPolicyVersion", PolicyArn=fitting, VersionId="v1")
    account.change("AttachRolePolicy", RoleName=role, PolicyArn=fitting)
    account.inline(role, NEEDED[2])
    account.change("DetachRolePolicy", RoleName=role, PolicyArn=shared)
    cloud.answer(policy="nightly", kind="inline")


def wider_trust():
    """Faulty: the role is narrow, and everybody in the account may assume it."""
    account, role, _shared = _given()

    careful()
    who = {"Service": "lambda.amazonaws.com", "AWS": f"arn:aws:iam::{cloud.ACCOUNT}:root"}
    trust = cloud.policy({"Effect": "Allow", "Principal": who, "Action": "sts:AssumeRole"})
    account.change("UpdateAssumeRolePolicy", RoleName=role, PolicyDocument=trust)


def wrong_role():
    """Faulty: another role is narrowed, and cannot release any more."""
    account, role, shared = _given()

    role, shared = "deployer", cloud.arn("policy", "deploy")
    account.inline(role, *NEEDED)
    account.change("DetachRolePolicy", RoleName=role, PolicyArn=shared)
    cloud.answer(policy="nightly", kind="inline")
