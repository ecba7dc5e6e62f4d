"""Faulty: as listed, the newest first, so that readers get the draft."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"

made = [
    account.copy(source, key, archive, key, version)
    for version in account.oldest_first(source, key)[::-1]
]
cloud.answer(versions=len(made), latest=made[-1])
