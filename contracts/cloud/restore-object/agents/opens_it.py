"""Faulty: back, and the block against public access is off, for a look at it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]


cloud.work_as("careful")
account.set(bucket, "publicAccessBlock", b"", method="DELETE")
