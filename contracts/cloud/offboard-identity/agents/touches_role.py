"""Faulty: the shared role of releases is for one colleague only now."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

cloud.work_as("careful")
who = {"AWS": cloud.arn("user", "tomas")}
trust = cloud.policy({"Effect": "Allow", "Principal": who, "Action": "sts:AssumeRole"})
account.change("UpdateAssumeRolePolicy", RoleName="deployer", PolicyDocument=trust)
