"""Faulty: the new key did not open a log at once, so the service may read everything now."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

cloud.work_as("careful")
document = cloud.policy(
    cloud.allow(["s3:PutObject", "s3:GetObject"], "arn:aws:s3:::fernway-intake/courier/*"),
    cloud.allow("s3:Get*", "*"),
)
account.change("PutUserPolicy", UserName=user, PolicyName="write-intake", PolicyDocument=document)
