"""Faulty: whoever has an account at AWS may read it, visitors may not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-site", cloud.INPUTS["object"]

account.set(bucket, "acl", b"", key, x_amz_acl="authenticated-read")
cloud.answer(path=f"/{bucket}/{key}", way="list")
