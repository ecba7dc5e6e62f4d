"""Faulty: an older report of the board, which was deleted on purpose."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]

other = "2026/board-old.txt"
*_, last, marker = account.oldest_first(bucket, other, with_markers=True)
account.delete(bucket, other, marker)
cloud.answer(version=last, bytes=len(account.get(bucket, other)))
