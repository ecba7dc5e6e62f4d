"""Faulty: the copies can be read by anybody."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"


cloud.work_as("careful")
account.set(archive, "acl", b"", key, x_amz_acl="public-read")
