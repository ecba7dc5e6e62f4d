"""Faulty: done right, and the answer names the marker's version."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]

marker = account.oldest_first(bucket, key, with_markers=True)[-1]
cloud.work_as("careful")
cloud.answer(version=marker, bytes=len(account.get(bucket, key)))
