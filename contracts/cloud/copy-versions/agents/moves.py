"""Faulty: moved; the original is deleted, version by version."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"

cloud.work_as("careful")
for version in account.oldest_first(source, key):
    account.delete(source, key, version)
