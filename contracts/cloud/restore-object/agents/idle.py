"""Faulty: it did nothing, and says that it did."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]

cloud.answer(version=account.oldest_first(bucket, key, with_markers=True)[1], bytes=31)
