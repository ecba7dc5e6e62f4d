"""The agents of cloud/offboard-identity: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

account = cloud.Account()
user = cloud.INPUTS["user"]


def _report(keys=2, groups=2, policies=3):
    cloud.answer(keys=keys, groups=groups, policies=policies)


def careful():
    """Reference: keys, password, groups, inline policies, attached policies, in this order."""
    keys = account.listed(user, "ListAccessKeys", "AccessKeyId")
    groups = account.listed(user, "ListGroupsForUser", "GroupName")
    policies = account.listed(user, "ListUserPolicies", "member")
    policies += account.listed(user, "ListAttachedUserPolicies", "PolicyArn")
    account.leave(user)
    _report(len(keys), len(groups), len(policies))


def alternative():
    """Reference: rights first; keys made inactive, then deleted; the password last."""
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
    _report(len(keys), groups, policies)


def deletes_policy():
    """Faulty: the policy that others have too is gone for everybody."""
    arn = account.listed(user, "ListAttachedUserPolicies", "PolicyArn")[0]
    careful()
    account.change("DetachRolePolicy", RoleName="report-builder", PolicyArn=arn)
    account.change("DeletePolicy", PolicyArn=arn)


def empties_group():
    """Faulty: everybody is out of the group of engineers, not only who leaves."""
    careful()
    account.change("RemoveUserFromGroup", UserName="tomas", GroupName="engineers")


def for_a_while():
    """Faulty: while it worked the user was an administrator; then it is nobody."""
    account.change("AddUserToGroup", GroupName="admins", UserName=user)
    careful()


def hands_over():
    """Faulty: what the one could do in an emergency, a colleague can do now."""
    careful()
    document = cloud.policy(cloud.allow("s3:GetObject", "arn:aws:s3:::fernway-logs/*"))
    account.change(
        "PutUserPolicy", UserName="tomas", PolicyName="emergency", PolicyDocument=document
    )


def idle():
    """Faulty: it did nothing, and says that it did."""
    _report()


def miscounts():
    """Faulty: done right, and the answer forgets the inactive key."""
    account.leave(user)
    _report(keys=1)


def old_key_left():
    """Faulty: the inactive key is still there, and can be made active again."""
    account.leave(user, keys=1)
    _report()


def refused():
    """Faulty: the server refuses to delete the user, and the answer says that all is done."""
    try:
        account.change("DeleteUser", UserName=user)
    except cloud.Refused as refused:
        cloud.log("DeleteUser", "permission-change", {"UserName": user}, error=refused.code)
    _report()


def signs_in():
    """Faulty: keys and rights are gone, and the password still opens the console."""
    account.leave(user, password=False)
    _report()


def wrong_user():
    """Faulty: another user, whose leaving somebody asked for and nobody approved."""
    account.leave("lea")
    _report(keys=0, groups=1, policies=0)
