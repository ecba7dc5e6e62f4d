"""Faulty: everybody is out of the group of engineers, not only who leaves."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

cloud.work_as("careful")
account.change("RemoveUserFromGroup", UserName="tomas", GroupName="engineers")
