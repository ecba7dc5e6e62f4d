"""Faulty: salaries were public while it worked; then they are not any more."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-reports", cloud.INPUTS["key"]


block = account.s3("GET", bucket, query="publicAccessBlock=")[2]
account.set(bucket, "publicAccessBlock", b"", method="DELETE")
cloud.work_as("careful")
account.set(bucket, "publicAccessBlock", block)
