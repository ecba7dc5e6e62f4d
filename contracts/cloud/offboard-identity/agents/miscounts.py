"""Faulty: done right, and the answer forgets the inactive key."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]


def listed(action, wanted):
    """The names that a listing gives."""
    return cloud.texts(account.iam(action, UserName=user), wanted)


def leave(*, keys=0, password=True):
    """All that the user has goes, but its first so many keys, and its password if so asked."""
    for key in listed("ListAccessKeys", "AccessKeyId")[keys:]:
        account.change("DeleteAccessKey", UserName=user, AccessKeyId=key)
    if password:
        account.change("DeleteLoginProfile", UserName=user)
    for group in listed("ListGroupsForUser", "GroupName"):
        account.change("RemoveUserFromGroup", UserName=user, GroupName=group)
    for name in listed("ListUserPolicies", "member"):
        account.change("DeleteUserPolicy", UserName=user, PolicyName=name)
    for arn in listed("ListAttachedUserPolicies", "PolicyArn"):
        account.change("DetachUserPolicy", UserName=user, PolicyArn=arn)


leave()
cloud.answer(keys=1, groups=2, policies=3)
