"""Faulty: everything below press/ is public, the merger too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-site", cloud.INPUTS["object"]

document = cloud.json.loads(account.s3("GET", bucket, query="policy=")[2])
document["Statement"].append(
    cloud.allow("s3:GetObject", f"arn:aws:s3:::{bucket}/press/*", Principal="*")
)
account.set(bucket, "policy", cloud.json.dumps(document))
cloud.answer(path=f"/{bucket}/{key}", way="policy")
