"""Reference: the delete marker is removed; the last version is the object again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]

*_, last, marker = account.oldest_first(bucket, key, with_markers=True)
account.delete(bucket, key, marker)
cloud.answer(version=last, bytes=len(account.get(bucket, key)))
