"""Faulty: keys and rights are gone, and the password still opens the console."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]

account.leave(user, password=False)
cloud.answer(keys=2, groups=2, policies=3)
