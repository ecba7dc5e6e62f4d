"""Faulty: the content written anew, without metadata."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]

made = account.put(
    bucket, key, account.get(bucket, key, account.oldest_first(bucket, key, with_markers=True)[-2])
)
cloud.answer(version=made, bytes=len(account.get(bucket, key)))
