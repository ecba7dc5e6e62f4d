"""Faulty: it says that the old key is deleted, and it is there, inactive."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

cloud.work_as("careful")
[new] = set(cloud.texts(account.iam("ListAccessKeys", UserName=user), "AccessKeyId")) - {old}
cloud.answer(ends=new[-4:], old="deleted")
