"""Faulty: the last copy seemed to fail and was made again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"

cloud.work_as("careful")
made = account.copy(source, key, archive, key, account.oldest_first(source, key)[-1])
cloud.answer(versions=3, latest=made)
