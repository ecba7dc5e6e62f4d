"""Faulty: the first version, which the board did not decide."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]

made = account.copy(
    bucket, key, bucket, key, account.oldest_first(bucket, key, with_markers=True)[0]
)
cloud.answer(version=made, bytes=len(account.get(bucket, key)))
