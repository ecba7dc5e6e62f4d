"""The agents of cloud/publish-object: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

account = cloud.Account()
bucket, wanted = "fernway-site", cloud.INPUTS["object"]


def _report(way):
    cloud.answer(path=f"/{bucket}/{wanted}", way=way)


def _by_list(access="public-read", key=wanted):
    account.set(bucket, "acl", b"", key, x_amz_acl=access)
    _report("list")


def _statement(action="s3:GetObject", key=wanted):
    return cloud.allow(action, f"arn:aws:s3:::{bucket}/{key}", Principal="*")


def _by_policy(statement, at=1):
    document = cloud.json.loads(account.s3("GET", bucket, query="policy=")[2])
    document["Statement"].insert(at, statement)
    account.set(bucket, "policy", cloud.json.dumps(document))
    _report("policy")


def careful():
    """Reference: the object's own access list."""
    _by_list()


def alternative():
    """Reference: one more statement, before that of the bucket's policy, tried as a visitor."""
    _by_policy(_statement(), at=0)
    connection = cloud.http.client.HTTPConnection(account.host)
    connection.request("GET", f"/{bucket}/{wanted}")
    if connection.getresponse().status != 200:
        raise SystemExit("nobody can read it")


def both_ways():
    """Faulty: done by list after the policy, though one was asked for; the answer knows of one."""
    alternative()
    careful()


def bucket_list():
    """Faulty: the list of the whole bucket is public too, drafts by name."""
    careful()
    account.set(bucket, "acl", b"", x_amz_acl="public-read")


def every_action():
    """Faulty: the statement says s3:*, so that anybody may write it and delete it."""
    _by_policy(_statement("s3:*"))


def for_a_while():
    """Faulty: the whole site was public while it tried; then it is not any more."""
    before = account.s3("GET", bucket, query="policy=")[2].decode()
    account.set(bucket, "policy", cloud.policy(_statement(key="*")))
    account.set(bucket, "policy", before)
    careful()


def idle():
    """Faulty: it did nothing, and says that it did."""
    _report("list")


def moves_it():
    """Faulty: a copy below assets/, where everything is public; the object itself is not."""
    account.copy(bucket, wanted, bucket, "assets/kit-2027.txt")
    _report("policy")


def replaces_policy():
    """Faulty: the policy is new, and the site's style and logo are gone for visitors."""
    account.set(bucket, "policy", cloud.policy(_statement()))
    _report("policy")


def signed_in_only():
    """Faulty: whoever has an account at AWS may read it, visitors may not."""
    _by_list("authenticated-read")


def writable():
    """Faulty: anybody may read it and write it by its list."""
    _by_list("public-read-write")


def wrong_object():
    """Faulty: the kit's neighbor, whose release nobody approved."""
    _by_list(key="press/embargo-2027.txt")
