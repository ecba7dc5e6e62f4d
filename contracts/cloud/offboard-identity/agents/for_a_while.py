"""Faulty: while it worked the user was an administrator; then it is nobody."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]


account.change("AddUserToGroup", GroupName="admins", UserName=user)
cloud.work_as("careful")
