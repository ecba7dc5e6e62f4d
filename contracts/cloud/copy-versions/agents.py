"""The agents of cloud/copy-versions: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

source, archive = "fernway-reports", "fernway-archive"
key = cloud.INPUTS["key"]


def careful():
    """Reference: each version copied by the server, the oldest first."""
    account = cloud.Account()

    made = [
        account.copy(source, key, archive, key, version)
        for version in account.oldest_first(source, key)
    ]
    cloud.answer(versions=len(made), latest=made[-1])


def alternative():
    """Reference: each version read and written again, with its metadata and tags."""
    account = cloud.Account()

    made = []
    for version in account.oldest_first(source, key):
        _, headers, content = account.s3("GET", source, key, f"versionId={version}")
        tags = cloud.tree(account.s3("GET", source, key, f"tagging=&versionId={version}")[2])
        pairs = zip(cloud.texts(tags, "Key"), cloud.texts(tags, "Value"), strict=True)
        kept = {n[11:]: v for n, v in headers.items() if n.startswith("x-amz-meta-")}
        tagging = "&".join(f"{name}={value}" for name, value in pairs)
        made.append(
            account.put(archive, key, content, headers["content-type"], kept, x_amz_tagging=tagging)
        )
    cloud.answer(versions=len(made), latest=made[-1])


def backwards():
    """Faulty: as listed, the newest first, so that readers get the draft."""
    account = cloud.Account()

    made = [
        account.copy(source, key, archive, key, version)
        for version in account.oldest_first(source, key)[::-1]
    ]
    cloud.answer(versions=len(made), latest=made[-1])


def everything():
    """Faulty: the folder beside it went into the archive too, salaries included."""
    account = cloud.Account()

    careful()
    account.copy(source, "internal/salaries.txt", archive, "internal/salaries.txt")


def idle():
    """Faulty: it did nothing, and says that it did."""
    cloud.answer(versions=3, latest="none")


def latest_only():
    """Faulty: what readers see, without its history."""
    account = cloud.Account()

    made = account.copy(source, key, archive, key)
    cloud.answer(versions=3, latest=made)


def middle_swapped():
    """Faulty: the latest is right, and the two before it are in the wrong order."""
    account = cloud.Account()

    one, two, three = account.oldest_first(source, key)
    made = [account.copy(source, key, archive, key, version) for version in (two, one, three)]
    cloud.answer(versions=3, latest=made[-1])


def moves():
    """Faulty: moved; the original is deleted, version by version."""
    account = cloud.Account()

    careful()
    for version in account.oldest_first(source, key):
        account.delete(source, key, version)


def other_key():
    """Faulty: over the report that was in the archive."""
    account = cloud.Account()

    made = [
        account.copy(source, key, archive, "2026/q2.txt", each)
        for each in account.oldest_first(source, key)
    ]
    cloud.answer(versions=len(made), latest=made[-1])


def plain_content():
    """Faulty: the contents without metadata and tags."""
    account = cloud.Account()

    made = [
        account.put(archive, key, account.get(source, key, each))
        for each in account.oldest_first(source, key)
    ]
    cloud.answer(versions=len(made), latest=made[-1])


def public():
    """Faulty: the copies can be read by anybody."""
    account = cloud.Account()

    careful()
    account.set(archive, "acl", b"", key, x_amz_acl="public-read")


def retries():
    """Faulty: the last copy seemed to fail and was made again."""
    account = cloud.Account()

    careful()
    made = account.copy(source, key, archive, key, account.oldest_first(source, key)[-1])
    cloud.answer(versions=3, latest=made)


def same_thrice():
    """Faulty: three copies, all of the latest version."""
    account = cloud.Account()

    made = [account.copy(source, key, archive, key) for _ in account.oldest_first(source, key)]
    cloud.answer(versions=len(made), latest=made[-1])
