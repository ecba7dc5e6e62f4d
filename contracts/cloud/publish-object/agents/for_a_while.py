"""Faulty: the whole site was public while it tried; then it is not any more."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-site", cloud.INPUTS["object"]

before = account.s3("GET", bucket, query="policy=")[2].decode()
wide = cloud.policy(cloud.allow("s3:GetObject", f"arn:aws:s3:::{bucket}/*", Principal="*"))
account.set(bucket, "policy", wide)
account.set(bucket, "policy", before)
cloud.work_as("careful")
