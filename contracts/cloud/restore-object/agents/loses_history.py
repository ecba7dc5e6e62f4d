"""Faulty: back, and the version before is gone for good."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]

cloud.work_as("careful")
account.delete(bucket, key, account.oldest_first(bucket, key, with_markers=True)[0])
