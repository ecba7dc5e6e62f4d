"""Reference: the shared policy goes; a managed policy with one statement an action comes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

role, shared = cloud.INPUTS["role"], cloud.arn("policy", "report-builder-access")
REPORTS, QUEUE = "arn:aws:s3:::fernway-reports", "arn:aws:sqs:us-east-1:123456789012:reports"
NEEDED = (
    cloud.allow("s3:ListBucket", REPORTS),
    cloud.allow("s3:GetObject", f"{REPORTS}/2026/*"),
    cloud.allow(["sqs:ReceiveMessage", "sqs:DeleteMessage"], QUEUE),
)

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
