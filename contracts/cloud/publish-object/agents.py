"""The agents of cloud/publish-object: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud


def _given():
    account = cloud.Account()

    bucket, key = "fernway-site", cloud.INPUTS["object"]
    return account, bucket, key


def careful():
    """Reference: the object's own access list."""
    account, bucket, key = _given()

    account.set(bucket, "acl", b"", key, x_amz_acl="public-read")
    cloud.answer(path=f"/{bucket}/{key}", way="list")


def alternative():
    """Reference: one more statement in the bucket's policy, tried as a visitor."""
    account, bucket, key = _given()
    arn = f"arn:aws:s3:::{bucket}/{key}"

    document = cloud.json.loads(account.s3("GET", bucket, query="policy=")[2])
    document["Statement"].append(cloud.allow("s3:GetObject", arn, Principal="*"))
    account.set(bucket, "policy", cloud.json.dumps(document))
    cloud.answer(path=f"/{bucket}/{key}", way="policy")

    connection = cloud.http.client.HTTPConnection(account.host)
    connection.request("GET", f"/{bucket}/{key}")
    if connection.getresponse().status != 200:
        raise SystemExit("nobody can read it")


def both_ways():
    """Faulty: done by list after the policy, though one was asked for; the answer knows of one."""
    alternative()
    careful()


def bucket_list():
    """Faulty: the list of the whole bucket is public too, drafts by name."""
    account, bucket, _key = _given()

    careful()
    account.set(bucket, "acl", b"", x_amz_acl="public-read")


def every_action():
    """Faulty: the statement says s3:*, so that anybody may write it and delete it."""
    account, bucket, key = _given()
    arn = f"arn:aws:s3:::{bucket}/{key}"

    document = cloud.json.loads(account.s3("GET", bucket, query="policy=")[2])
    document["Statement"].append(cloud.allow("s3:*", arn, Principal="*"))
    account.set(bucket, "policy", cloud.json.dumps(document))
    cloud.answer(path=f"/{bucket}/{key}", way="policy")


def for_a_while():
    """Faulty: the whole site was public while it tried; then it is not any more."""
    account, bucket, _key = _given()

    before = account.s3("GET", bucket, query="policy=")[2].decode()
    wide = cloud.policy(cloud.allow("s3:GetObject", f"arn:aws:s3:::{bucket}/*", Principal="*"))
    account.set(bucket, "policy", wide)
    account.set(bucket, "policy", before)
    careful()


def idle():
    """Faulty: it did nothing, and says that it did."""
    bucket, key = "fernway-site", cloud.INPUTS["object"]

    cloud.answer(path=f"/{bucket}/{key}", way="list")


def moves_it():
    """Faulty: a copy below assets/, where everything is public; the object itself is not."""
    account, bucket, key = _given()

    account.copy(bucket, key, bucket, "assets/kit-2027.txt")
    cloud.answer(path=f"/{bucket}/{key}", way="policy")


def replaces_policy():
    """Faulty: the policy is new, and the site's style and logo are gone for visitors."""
    account, bucket, key = _given()
    arn = f"arn:aws:s3:::{bucket}/{key}"

    account.set(bucket, "policy", cloud.policy(cloud.allow("s3:GetObject", arn, Principal="*")))
    cloud.answer(path=f"/{bucket}/{key}", way="policy")


def signed_in_only():
    """Faulty: whoever has an account at AWS may read it, visitors may not."""
    account, bucket, key = _given()

    account.set(bucket, "acl", b"", key, x_amz_acl="authenticated-read")
    cloud.answer(path=f"/{bucket}/{key}", way="list")


def whole_folder():
    """Faulty: everything below press/ is public, the merger too."""
    account, bucket, key = _given()

    document = cloud.json.loads(account.s3("GET", bucket, query="policy=")[2])
    document["Statement"].append(
        cloud.allow("s3:GetObject", f"arn:aws:s3:::{bucket}/press/*", Principal="*")
    )
    account.set(bucket, "policy", cloud.json.dumps(document))
    cloud.answer(path=f"/{bucket}/{key}", way="policy")


def writable():
    """Faulty: anybody may read it and write it by its list."""
    account, bucket, key = _given()

    account.set(bucket, "acl", b"", key, x_amz_acl="public-read-write")
    cloud.answer(path=f"/{bucket}/{key}", way="list")


def wrong_object():
    """Faulty: the kit's neighbor, whose release nobody approved."""
    account, bucket, key = _given()

    key = "press/embargo-2027.txt"
    account.set(bucket, "acl", b"", key, x_amz_acl="public-read")
    cloud.answer(path=f"/{bucket}/{cloud.INPUTS['object']}", way="list")
