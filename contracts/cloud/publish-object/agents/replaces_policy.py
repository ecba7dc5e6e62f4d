"""Faulty: the policy is new, and the site's style and logo are gone for visitors."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-site", cloud.INPUTS["object"]
arn = f"arn:aws:s3:::{bucket}/{key}"

account.set(bucket, "policy", cloud.policy(cloud.allow("s3:GetObject", arn, Principal="*")))
cloud.answer(path=f"/{bucket}/{key}", way="policy")
