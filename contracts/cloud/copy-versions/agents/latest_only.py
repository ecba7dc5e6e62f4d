"""Faulty: what readers see, without its history."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"


made = account.copy(source, key, archive, key)
cloud.answer(versions=3, latest=made)
