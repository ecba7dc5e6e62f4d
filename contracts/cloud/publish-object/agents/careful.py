"""Reference: the object's own access list."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-site", cloud.INPUTS["object"]

account.set(bucket, "acl", b"", key, x_amz_acl="public-read")
cloud.answer(path=f"/{bucket}/{key}", way="list")
