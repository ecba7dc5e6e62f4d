"""Faulty: the latest is right, and the two before it are in the wrong order."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"

one, two, three = account.oldest_first(source, key)
made = [account.copy(source, key, archive, key, version) for version in (two, one, three)]
cloud.answer(versions=3, latest=made[-1])
