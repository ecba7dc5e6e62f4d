"""Faulty: the policy that others have too is gone for everybody."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]

arn = account.listed(user, "ListAttachedUserPolicies", "PolicyArn")[0]
cloud.work_as("careful")
account.change("DetachRolePolicy", RoleName="report-builder", PolicyArn=arn)
account.change("DeletePolicy", PolicyArn=arn)
