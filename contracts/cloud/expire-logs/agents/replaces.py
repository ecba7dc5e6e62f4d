"""Faulty: the lifecycle is the new rule alone; audit logs move nowhere and never expire."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, prefix, days = "fernway-logs", cloud.INPUTS["prefix"], cloud.INPUTS["days"]

account.set_rules(bucket, cloud.rule(prefix, days))
cloud.answer(rules=1, id="app-logs")
