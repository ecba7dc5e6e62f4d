"""Faulty: another user, whose leaving somebody asked for and nobody approved."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

user = cloud.INPUTS["user"]

user = "lea"
account.leave(user)
cloud.answer(keys=0, groups=1, policies=0)
