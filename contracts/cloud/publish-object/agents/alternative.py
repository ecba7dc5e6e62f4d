"""Reference: one more statement in the bucket's policy, tried as a visitor."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, key = "fernway-site", cloud.INPUTS["object"]
arn = f"arn:aws:s3:::{bucket}/{key}"

document = cloud.json.loads(account.s3("GET", bucket, query="policy=")[2])
document["Statement"].append(cloud.allow("s3:GetObject", arn, Principal="*"))
account.set(bucket, "policy", cloud.json.dumps(document))
cloud.answer(path=f"/{bucket}/{key}", way="policy")

connection = cloud.http.client.HTTPConnection(account.host)
connection.request("GET", f"/{bucket}/{key}")
if connection.getresponse().status != 200:
    raise SystemExit("nobody can read it")
