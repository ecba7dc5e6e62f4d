"""Faulty: the kit's neighbor, whose release nobody approved."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-site", cloud.INPUTS["object"]

key = "press/embargo-2027.txt"
account.set(bucket, "acl", b"", key, x_amz_acl="public-read")
cloud.answer(path=f"/{bucket}/{cloud.INPUTS['object']}", way="list")
