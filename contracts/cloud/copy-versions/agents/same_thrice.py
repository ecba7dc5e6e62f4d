"""Faulty: three copies, all of the latest version."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"

made = [account.copy(source, key, archive, key) for _ in account.oldest_first(source, key)]
cloud.answer(versions=len(made), latest=made[-1])
