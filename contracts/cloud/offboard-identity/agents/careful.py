"""Reference: keys, password, groups, inline policies, attached policies, in this order."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]

keys = account.listed(user, "ListAccessKeys", "AccessKeyId")
groups = account.listed(user, "ListGroupsForUser", "GroupName")
policies = account.listed(user, "ListUserPolicies", "member")
policies += account.listed(user, "ListAttachedUserPolicies", "PolicyArn")
account.leave(user)
cloud.answer(keys=len(keys), groups=len(groups), policies=len(policies))
