"""Faulty: the list of the whole bucket is public too, drafts by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-site", cloud.INPUTS["object"]

cloud.work_as("careful")
account.set(bucket, "acl", b"", x_amz_acl="public-read")
