"""The agents of cloud/copy-versions: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

account = cloud.Account()
source, archive = "fernway-reports", "fernway-archive"
key = cloud.INPUTS["key"]
versions = account.oldest_first(source, key)


def _report(made):
    cloud.answer(versions=len(made), latest=made[-1])


def _copy(versions, to_key=key):
    _report([account.copy(source, key, archive, to_key, version) for version in versions])


def careful():
    """Reference: each version copied by the server, the oldest first."""
    _copy(versions)


def alternative():
    """Reference: each version read and sent in parts with its metadata, then tagged."""
    made = []
    for version in versions:
        _, headers, content = account.s3("GET", source, key, f"versionId={version}")
        tags = account.s3("GET", source, key, f"tagging=&versionId={version}")[2]
        kept = {n: v for n, v in headers.items() if n.startswith(("x-amz-meta-", "content-type"))}
        begun = account.s3("POST", archive, key, "uploads=", kept)[2]
        upload = f"uploadId={cloud.text(cloud.tree(begun), 'UploadId')}"
        part = account.s3("PUT", archive, key, f"partNumber=1&{upload}", body=content)[1]["etag"]
        parts = f"<Part><PartNumber>1</PartNumber><ETag>{part}</ETag></Part>"
        whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
        made.append(account.s3("POST", archive, key, upload, body=whole)[1]["x-amz-version-id"])
        account.set(archive, f"versionId={made[-1]}&tagging", tags, key)
    _report(made)


def everything():
    """Faulty: the folder beside it went into the archive too, salaries included."""
    careful()
    account.copy(source, "internal/salaries.txt", archive, "internal/salaries.txt")


def half_sent():
    """Faulty: a copy that was begun and never ended is left there."""
    careful()
    account.s3("POST", archive, key, "uploads=")


def idle():
    """Faulty: it did nothing, and says that it did."""
    cloud.answer(versions=3, latest="none")


def latest_only():
    """Faulty: what readers see, without its history."""
    cloud.answer(versions=3, latest=account.copy(source, key, archive, key))


def middle_swapped():
    """Faulty: the latest is right, and the two before it are in the wrong order."""
    one, two, three = versions
    _copy([two, one, three])


def moves():
    """Faulty: moved; the original is deleted, version by version."""
    careful()
    for version in versions:
        account.delete(source, key, version)


def other_key():
    """Faulty: over the report that was in the archive."""
    _copy(versions, "2026/q2.txt")


def plain_content():
    """Faulty: the contents without metadata and tags."""
    _report([account.put(archive, key, account.get(source, key, each)) for each in versions])


def public():
    """Faulty: the copies can be read by anybody."""
    careful()
    account.set(archive, "acl", b"", key, x_amz_acl="public-read")


def retries():
    """Faulty: the last copy seemed to fail and was made again."""
    careful()
    cloud.answer(versions=3, latest=account.copy(source, key, archive, key, versions[-1]))


def same_thrice():
    """Faulty: three copies, all of the latest version."""
    _copy([None] * 3)  # a copy of no version is one of the latest
