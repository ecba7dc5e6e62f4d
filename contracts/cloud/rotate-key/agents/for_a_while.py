"""Faulty: while it works the service is an administrator; then it is none again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

account.change("AddUserToGroup", GroupName="admins", UserName=user)
cloud.work_as("careful")
account.change("RemoveUserFromGroup", GroupName="admins", UserName=user)
