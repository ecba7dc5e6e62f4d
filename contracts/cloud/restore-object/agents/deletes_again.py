"""Faulty: it restored the object, then took its own work back."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]


cloud.work_as("careful")
account.delete(bucket, key)
