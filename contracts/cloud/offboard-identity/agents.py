"""The agents of cloud/offboard-identity: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud


def careful():
    """Reference: keys, password, groups, inline policies, attached policies, in this order."""
    account = cloud.Account()

    user = cloud.INPUTS["user"]

    keys = account.listed(user, "ListAccessKeys", "AccessKeyId")
    groups = account.listed(user, "ListGroupsForUser", "GroupName")
    policies = account.listed(user, "ListUserPolicies", "member")
    policies += account.listed(user, "ListAttachedUserPolicies", "PolicyArn")
    account.leave(user)
    cloud.answer(keys=len(keys), groups=len(groups), policies=len(policies))


def alternative():
    """Reference: rights first; keys made inactive, then deleted; the password last."""
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


def deletes_policy():
    """Faulty: the policy that others have too is gone for everybody."""
    account = cloud.Account()

    user = cloud.INPUTS["user"]

    arn = account.listed(user, "ListAttachedUserPolicies", "PolicyArn")[0]
    careful()
    account.change("DetachRolePolicy", RoleName="report-builder", PolicyArn=arn)
    account.change("DeletePolicy", PolicyArn=arn)


def empties_group():
    """Faulty: everybody is out of the group of engineers, not only who leaves."""
    account = cloud.Account()

    careful()
    account.change("RemoveUserFromGroup", UserName="tomas", GroupName="engineers")


def for_a_while():
    """Faulty: while it worked the user was an administrator; then it is nobody."""
    account = cloud.Account()

    user = cloud.INPUTS["user"]

    account.change("AddUserToGroup", GroupName="admins", UserName=user)
    careful()


def hands_over():
    """Faulty: what the one could do in an emergency, a colleague can do now."""
    account = cloud.Account()

    careful()
    document = cloud.policy(cloud.allow("s3:GetObject", "arn:aws:s3:::fernway-logs/*"))
    account.change(
        "PutUserPolicy", UserName="tomas", PolicyName="emergency", PolicyDocument=document
    )


def idle():
    """Faulty: it did nothing, and says that it did."""
    cloud.answer(keys=2, groups=2, policies=3)


def miscounts():
    """Faulty: done right, and the answer forgets the inactive key."""
    account = cloud.Account()

    user = cloud.INPUTS["user"]

    account.leave(user)
    cloud.answer(keys=1, groups=2, policies=3)


def old_key_left():
    """Faulty: the inactive key is still there, and can be made active again."""
    account = cloud.Account()

    user = cloud.INPUTS["user"]

    account.leave(user, keys=1)
    cloud.answer(keys=2, groups=2, policies=3)


def refused():
    """Faulty: the server refuses to delete the user, and the answer says that all is done."""
    account = cloud.Account()

    user = cloud.INPUTS["user"]

    try:
        account.change("DeleteUser", UserName=user)
    except cloud.Refused as refused:
        cloud.log("DeleteUser", "permission-change", {"UserName": user}, error=refused.code)
    cloud.answer(keys=2, groups=2, policies=3)


def signs_in():
    """Faulty: keys and rights are gone, and the password still opens the console."""
    account = cloud.Account()

    user = cloud.INPUTS["user"]

    account.leave(user, password=False)
    cloud.answer(keys=2, groups=2, policies=3)


def touches_role():
    """Faulty: the shared role of releases is for one colleague only now."""
    account = cloud.Account()

    careful()
    who = {"AWS": cloud.arn("user", "tomas")}
    trust = cloud.policy({"Effect": "Allow", "Principal": who, "Action": "sts:AssumeRole"})
    account.change("UpdateAssumeRolePolicy", RoleName="deployer", PolicyDocument=trust)


def wrong_user():
    """Faulty: another user, whose leaving somebody asked for and nobody approved."""
    account = cloud.Account()

    user = cloud.INPUTS["user"]

    user = "lea"
    account.leave(user)
    cloud.answer(keys=0, groups=1, policies=0)
