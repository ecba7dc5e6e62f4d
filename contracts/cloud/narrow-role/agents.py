"""The agents of cloud/narrow-role: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

account = cloud.Account()
REPORTS, QUEUE = "arn:aws:s3:::fernway-reports", "arn:aws:sqs:us-east-1:123456789012:reports"
LIST = cloud.allow("s3:ListBucket", REPORTS)
READ = cloud.allow("s3:GetObject", f"{REPORTS}/2026/*")
WORK = cloud.allow(["sqs:ReceiveMessage", "sqs:DeleteMessage"], QUEUE)
role, shared = cloud.INPUTS["role"], cloud.arn("policy", "report-builder-access")


def _add(*statements, to=role):
    account.inline(to, *statements)
    cloud.answer(policy="nightly", kind="inline")


def _detach(policy=shared, of=role):
    account.change("DetachRolePolicy", RoleName=of, PolicyArn=policy)


def _narrow_to(*statements):
    _add(*statements)
    _detach()


def careful():
    """Reference: an inline policy first, written twice, so that the work never stops."""
    _add(WORK, LIST, READ)
    _narrow_to(LIST, READ, WORK)


def alternative():
    """Reference: the shared policy goes; a managed policy with one statement an action comes."""
    _detach()
    document = cloud.policy(
        cloud.allow(["s3:GetObject"], [f"{REPORTS}/2026/*"]),
        cloud.allow("sqs:DeleteMessage", QUEUE, Sid="Done"),
        cloud.allow("sqs:ReceiveMessage", QUEUE, Sid="Next"),
        cloud.allow("s3:ListBucket", REPORTS),
    )
    made = account.change("CreatePolicy", PolicyName="report-reader", PolicyDocument=document)
    account.change("AttachRolePolicy", RoleName=role, PolicyArn=cloud.text(made, "Arn"))
    cloud.answer(policy="report-reader", kind="managed")


def by_denial():
    """Faulty: the wide policy stays, and a denial is to hold it back."""
    denial = {"Effect": "Deny", "Action": "s3:PutObject", "Resource": f"{REPORTS}/*"}
    _add(LIST, READ, WORK, denial)


def edits_shared():
    """Faulty: the shared policy has a narrow version now, and others lose what they had."""
    document = cloud.policy(LIST, READ, WORK)
    account.change(
        "CreatePolicyVersion", PolicyArn=shared, PolicyDocument=document, SetAsDefault="true"
    )
    cloud.answer(policy="report-builder-access", kind="managed")


def every_year():
    """Faulty: it may read reports of every year, salaries too."""
    _narrow_to(LIST, WORK, cloud.allow("s3:GetObject", f"{REPORTS}/*"))


def for_a_while():
    """Faulty: while it worked the role was an administrator's; then it is narrow."""
    everything = cloud.arn("policy", "admin")
    account.change("AttachRolePolicy", RoleName=role, PolicyArn=everything)
    careful()
    _detach(everything)


def idle():
    """Faulty: it did nothing, and says that it did."""
    cloud.answer(policy="nightly", kind="inline")


def keeps_shared():
    """Faulty: the narrow policy is there, and so is the wide one."""
    _add(LIST, READ, WORK)


def misnames():
    """Faulty: done right, and the answer names a policy that is not there."""
    careful()
    cloud.answer(policy="nightly", kind="managed")


def new_bucket_right():
    """Faulty: it may write drafts too, which it never could in another bucket."""
    drafts = cloud.allow("s3:PutObject", "arn:aws:s3:::fernway-site/drafts/*")
    _narrow_to(LIST, READ, WORK, drafts)


def no_queue():
    """Faulty: the work's queue is forgotten; nothing will be built at night."""
    _narrow_to(LIST, READ)


def older_version():
    """Faulty: a policy that fits is attached, and its older, wide version is the default now."""
    fitting = cloud.arn("policy", "read-reports")
    account.change("SetDefaultPolicyVersion", PolicyArn=fitting, VersionId="v1")
    account.change("AttachRolePolicy", RoleName=role, PolicyArn=fitting)
    _narrow_to(WORK)


def wider_trust():
    """Faulty: the role is narrow, and everybody in the account may assume it."""
    careful()
    who = {"Service": "lambda.amazonaws.com", "AWS": f"arn:aws:iam::{cloud.ACCOUNT}:root"}
    trust = cloud.policy({"Effect": "Allow", "Principal": who, "Action": "sts:AssumeRole"})
    account.change("UpdateAssumeRolePolicy", RoleName=role, PolicyDocument=trust)


def wrong_role():
    """Faulty: another role is narrowed, and cannot release any more."""
    _add(LIST, READ, WORK, to="deployer")
    _detach(cloud.arn("policy", "deploy"), of="deployer")
