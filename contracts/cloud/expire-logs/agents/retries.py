"""Faulty: after a timeout it adds the rule again under another id."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, prefix, days = "fernway-logs", cloud.INPUTS["prefix"], cloud.INPUTS["days"]

cloud.work_as("careful")
account.set_rules(bucket, account.rules(bucket) + cloud.rule(prefix, days, named="app-logs-2"))
