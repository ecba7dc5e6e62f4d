"""Faulty: a copy below assets/, where everything is public; the object itself is not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-site", cloud.INPUTS["object"]

account.copy(bucket, key, bucket, "assets/kit-2027.txt")
cloud.answer(path=f"/{bucket}/{key}", way="policy")
