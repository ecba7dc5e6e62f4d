"""Faulty: the contents without metadata and tags."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"

made = [
    account.put(archive, key, account.get(source, key, each))
    for each in account.oldest_first(source, key)
]
cloud.answer(versions=len(made), latest=made[-1])
