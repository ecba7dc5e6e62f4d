"""Faulty: the inactive key is still there, and can be made active again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]

account.leave(user, keys=1)
cloud.answer(keys=2, groups=2, policies=3)
