"""Reference: rights first; keys made inactive, then deleted; the password last."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]

policies = groups = 0
for arn in account.listed(user, "ListAttachedUserPolicies", "PolicyArn"):
    account.change("DetachUserPolicy", UserName=user, PolicyArn=arn)
    policies += 1
for name in account.listed(user, "ListUserPolicies", "member"):
    account.change("DeleteUserPolicy", UserName=user, PolicyName=name)
    policies += 1
for group in reversed(account.listed(user, "ListGroupsForUser", "GroupName")):
    account.change("RemoveUserFromGroup", UserName=user, GroupName=group)
    groups += 1
keys = account.listed(user, "ListAccessKeys", "AccessKeyId")
for key in keys:
    account.change("UpdateAccessKey", UserName=user, AccessKeyId=key, Status="Inactive")
for key in keys:
    account.change("DeleteAccessKey", UserName=user, AccessKeyId=key)
account.change("DeleteLoginProfile", UserName=user)
cloud.answer(policies=policies, keys=len(keys), groups=groups)
