"""Faulty: for a moment the new rule was the only one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, prefix, days = "fernway-logs", cloud.INPUTS["prefix"], cloud.INPUTS["days"]

known = account.rules(bucket)
account.set_rules(bucket, cloud.rule(prefix, days))
account.set_rules(bucket, known + cloud.rule(prefix, days))
cloud.answer(rules=3, id="app-logs")
