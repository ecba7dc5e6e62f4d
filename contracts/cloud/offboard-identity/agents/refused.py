"""Faulty: the server refuses to delete the user, and the answer says that all is done."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]


try:
    account.change("DeleteUser", UserName=user)
except cloud.Refused as refused:
    cloud.log("DeleteUser", "permission-change", {"UserName": user}, error=refused.code)
cloud.answer(keys=2, groups=2, policies=3)
