"""Faulty: it also deletes the logs that are old by its own clock."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, prefix, days = "fernway-logs", cloud.INPUTS["prefix"], cloud.INPUTS["days"]


cloud.work_as("careful")
account.delete(bucket, "app/2026-10-12.log")
