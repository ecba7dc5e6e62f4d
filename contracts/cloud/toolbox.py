"""The start of every agent of the cloud tasks: signed requests, answer and log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python: with the standard library, which has HTTP and HMAC, all that a signature takes.
"""

import datetime as dt
import hashlib
import hmac
import http.client
import json
import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))
from given import answer, log  # noqa: F401 - answer is the agents'

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
ACCOUNT = "123456789012"
REGION = "us-east-1"


def say(words):
    """Hands in an answer of words alone."""
    Path(os.environ["STATEDIFF_ANSWER"]).write_text(words)


class Refused(Exception):
    """The server said no; `code` is its own word for why."""

    def __init__(self, status, code, text):
        super().__init__(f"{status} {code}: {text[:300]}")
        self.code = code


class Account:
    """One access key and its secret at one server."""

    def __init__(self, key=None, secret=None):
        place = urlsplit(os.environ["STATEDIFF_ACCOUNT_URL"])
        self.host = f"{place.hostname}:{place.port}"
        self.key, self.secret = key or place.username, secret or place.password

    def ask(self, service, method, path, query="", headers=None, body=b""):
        """One signed request: status, headers in lower case, content. Path and query are quoted."""
        now = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        sent = {"host": self.host, "x-amz-date": now, "x-amz-content-sha256": digest}
        sent.update({name.lower(): value for name, value in (headers or {}).items()})
        names = ";".join(sorted(sent))
        pairs = sorted((quote(n, safe="~"), quote(v, safe="~")) for n, v in parse_qsl(query, True))
        asked = "&".join(f"{n}={v}" for n, v in pairs)
        lines = "".join(f"{name}:{' '.join(sent[name].split())}\n" for name in sorted(sent))
        canonical = f"{method}\n{path}\n{asked}\n{lines}\n{names}\n{digest}"
        scope = f"{now[:8]}/{REGION}/{service}/aws4_request"
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        signature = f"AWS4{self.secret}".encode()
        for part in (now[:8], REGION, service, "aws4_request"):
            signature = hmac.new(signature, part.encode(), "sha256").digest()
        to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashed}"
        final = hmac.new(signature, to_sign.encode(), "sha256").hexdigest()
        sent["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, "
            f"SignedHeaders={names}, Signature={final}"
        )
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.request(method, f"{path}?{asked}" if asked else path, body, sent)
            answer = connection.getresponse()
            content = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()
        if answer.status >= 300:
            text = content.decode(errors="replace")
            raise Refused(answer.status, _code(text), text)
        return answer.status, found, content

    # S3

    def s3(self, method, bucket, key="", query="", headers=None, body=b""):
        """One request about a bucket or an object."""
        path = f"/{bucket}/{quote(key, safe='/~')}" if key else f"/{bucket}"
        body = body.encode() if isinstance(body, str) else body
        return self.ask("s3", method, path, query, headers, body)

    def get(self, bucket, key, version=None):
        """The content of an object, as text."""
        query = f"versionId={version}" if version else ""
        return self.s3("GET", bucket, key, query)[2].decode()

    def oldest_first(self, bucket, key, *, with_markers=False):
        """The version ids of an object, those of delete markers if asked so, the oldest first."""
        found = tree(self.s3("GET", bucket, "", f"versions=&prefix={key}")[2])
        listed = [each for each in found if text(each, "Key") == key]
        listed = [each for each in listed if with_markers or name(each) == "Version"]
        listed.sort(key=lambda each: text(each, "LastModified"))
        return [text(each, "VersionId") for each in listed]

    def rules(self, bucket):
        """The lifecycle rules of a bucket as they are, as text."""
        found = self.s3("GET", bucket, query="lifecycle=")[2].decode()
        return found[found.index("<Rule>") : found.rindex("</Rule>") + 7]

    # IAM: the query protocol

    def iam(self, action, **arguments):
        """The answer's tree."""
        form = {"Action": action, "Version": "2010-05-08", **arguments}
        body = "&".join(f"{n}={quote(str(v), safe='')}" for n, v in form.items()).encode()
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return tree(self.ask("iam", "POST", "/", "", kind, body)[2])

    def listed(self, user, action, wanted):
        """The names that a listing about the user gives."""
        return texts(self.iam(action, UserName=user), wanted)

    # SQS: JSON

    def sqs(self, action, queue, **arguments):
        """The answer's object."""
        url = f"http://{self.host}/{ACCOUNT}/{queue}"
        body = json.dumps({"QueueUrl": url, **arguments}).encode()
        kind, target = "application/x-amz-json-1.0", f"AmazonSQS.{action}"
        headers = {"content-type": kind, "x-amz-target": target}
        content = self.ask("sqs", "POST", "/", "", headers, body)[2]
        return json.loads(content) if content else {}

    def receive(self, queue, seconds=60):
        """Up to ten messages, which nobody else gets for so many seconds."""
        found = self.sqs(
            "ReceiveMessage", queue, MaxNumberOfMessages=10, VisibilityTimeout=seconds,
            MessageAttributeNames=["All"],
        )  # fmt: skip
        return found.get("Messages", [])

    # What agents do, each with its line in the trace

    def put(self, bucket, key, body, kind="text/plain", metadata=None, **headers):
        """Writes an object; its version id, if the bucket keeps versions."""
        sent = {f"x-amz-meta-{n}": v for n, v in (metadata or {}).items()}
        sent.update({n.replace("_", "-"): v for n, v in headers.items()}, **{"content-type": kind})
        found = self.s3("PUT", bucket, key, headers=sent, body=body)[1]
        log("put_object", "conditional-update", {"bucket": bucket, "key": key})
        return found.get("x-amz-version-id")

    def copy(self, bucket, key, to_bucket, to_key, version=None):
        """Copies an object, or one version of it, with its metadata and tags."""
        source = f"/{bucket}/{quote(key)}" + (f"?versionId={version}" if version else "")
        found = self.s3("PUT", to_bucket, to_key, headers={"x-amz-copy-source": source})[1]
        log("copy_object", "conditional-update", {"from": source, "to": f"{to_bucket}/{to_key}"})
        return found.get("x-amz-version-id")

    def delete(self, bucket, key, version=None):
        """Deletes an object (a marker, where versions are kept), or one version for good."""
        self.s3("DELETE", bucket, key, f"versionId={version}" if version else "")
        kind = "irreversible-deletion" if version else "reversible-update"
        log("delete_object", kind, {"bucket": bucket, "key": key, "version": version})

    def set(self, bucket, what, body, key="", method="PUT", **headers):
        """A setting of a bucket or an object, e.g. its policy, acl or lifecycle."""
        sent = {n.replace("_", "-"): v for n, v in headers.items()}
        self.s3(method, bucket, key, f"{what}=", sent, body)
        kind = "permission-change" if what in _RIGHTS else "conditional-update"
        log(f"set_{what}", kind, {"bucket": bucket, "key": key})

    def set_rules(self, bucket, rules):
        """The bucket has these lifecycle rules and no others."""
        rules = f"<LifecycleConfiguration>{rules}</LifecycleConfiguration>"
        self.set(bucket, "lifecycle", rules)

    def change(self, action, **arguments):
        """An IAM action that changes something."""
        found = self.iam(action, **arguments)
        shown = {n: v for n, v in arguments.items() if n != "PolicyDocument"}
        log(action, "permission-change", shown)
        return found

    def inline(self, role, *statements, named="nightly"):
        """The role has an inline policy of these statements."""
        document = policy(*statements)
        self.change("PutRolePolicy", RoleName=role, PolicyName=named, PolicyDocument=document)

    def leave(self, user, *, keys=0, password=True):
        """All that the user has goes, but its first so many keys, and its password if so asked."""
        for key in self.listed(user, "ListAccessKeys", "AccessKeyId")[keys:]:
            self.change("DeleteAccessKey", UserName=user, AccessKeyId=key)
        if password:
            self.change("DeleteLoginProfile", UserName=user)
        for group in self.listed(user, "ListGroupsForUser", "GroupName"):
            self.change("RemoveUserFromGroup", UserName=user, GroupName=group)
        for named in self.listed(user, "ListUserPolicies", "member"):
            self.change("DeleteUserPolicy", UserName=user, PolicyName=named)
        for attached in self.listed(user, "ListAttachedUserPolicies", "PolicyArn"):
            self.change("DetachUserPolicy", UserName=user, PolicyArn=attached)

    def new_key(self, user):
        """The id and the secret of a new access key."""
        made = self.change("CreateAccessKey", UserName=user)
        return text(made, "AccessKeyId"), text(made, "SecretAccessKey")

    def send(self, queue, body, attributes=None):
        """Sends a message, with attributes as they were received."""
        named = attributes or {}
        self.sqs("SendMessage", queue, MessageBody=body, MessageAttributes=named)
        log("send_message", "notification", {"queue": queue, "body": body})

    def send_back(self, queue, message):
        """A message that was received waits again, as it was."""
        self.send(queue, message["Body"], message.get("MessageAttributes", {}))

    def drop(self, queue, message):
        """Deletes a message that was received."""
        self.sqs("DeleteMessage", queue, ReceiptHandle=message["ReceiptHandle"])
        log("delete_message", "irreversible-deletion", {"queue": queue, "body": message["Body"]})


_RIGHTS = ("policy", "acl", "publicAccessBlock", "ownershipControls")


def tree(content):
    """XML without its name spaces' names mattering."""
    return ET.fromstring(content)


def name(element):
    return element.tag.rpartition("}")[2]


def text(element, wanted):
    """The text of the first element below that has the name; None if none has."""
    for each in element.iter():
        if name(each) == wanted:
            return each.text or ""
    return None


def texts(element, wanted):
    return [each.text or "" for each in element.iter() if name(each) == wanted]


def _code(said):
    if said.startswith("{"):
        return json.loads(said).get("__type", "").rpartition("#")[2]
    try:
        return text(tree(said), "Code") or ""
    except ET.ParseError:
        return ""


def rule(below, after, status="Enabled", named="app-logs"):
    """One lifecycle rule that expires what begins so."""
    return (
        f"<Rule><ID>{named}</ID><Filter><Prefix>{below}</Prefix></Filter><Status>{status}</Status>"
        f"<Expiration><Days>{after}</Days></Expiration></Rule>"
    )


def policy(*statements):
    """A policy document."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(actions, resources, **more):
    return {"Effect": "Allow", "Action": actions, "Resource": resources, **more}


def arn(kind, named):
    """The ARN of a user, role or policy of the account."""
    return f"arn:aws:iam::{ACCOUNT}:{kind}/{named}"
