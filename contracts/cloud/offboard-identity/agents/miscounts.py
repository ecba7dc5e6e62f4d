"""Faulty: done right, and the answer forgets the inactive key."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]

account.leave(user)
cloud.answer(keys=1, groups=2, policies=3)
