"""Faulty: it did nothing, and says that it did."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

role, shared = cloud.INPUTS["role"], cloud.arn("policy", "report-builder-access")
REPORTS, QUEUE = "arn:aws:s3:::fernway-reports", "arn:aws:sqs:us-east-1:123456789012:reports"
NEEDED = (
    cloud.allow("s3:ListBucket", REPORTS),
    cloud.allow("s3:GetObject", f"{REPORTS}/2026/*"),
    cloud.allow(["sqs:ReceiveMessage", "sqs:DeleteMessage"], QUEUE),
)


cloud.answer(policy="nightly", kind="inline")
