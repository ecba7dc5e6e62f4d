"""Faulty: all that was deleted below 2026/ is there again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]

cloud.work_as("careful")
account.delete(
    bucket,
    "2026/board-old.txt",
    account.oldest_first(bucket, "2026/board-old.txt", with_markers=True)[-1],
)
