"""Faulty: all rules now say so many days, that of the audit logs too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, prefix, days = "fernway-logs", cloud.INPUTS["prefix"], cloud.INPUTS["days"]

account.set_rules(
    bucket, account.rules(bucket).replace("2555", str(days)) + cloud.rule(prefix, days)
)
cloud.answer(rules=3, id="app-logs")
