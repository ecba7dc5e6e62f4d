"""Faulty: whoever likes may assume the role of releases, in case a key is lost again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

cloud.work_as("careful")
trust = cloud.policy(
    {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"},
)
account.change("UpdateAssumeRolePolicy", RoleName="deployer", PolicyDocument=trust)
