"""The agents of cloud/restore-object: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

account = cloud.Account()
bucket, key = "fernway-reports", cloud.INPUTS["key"]


def careful():
    """Reference: the delete marker is removed; the last version is the object again."""
    *_, last, marker = account.oldest_first(bucket, key, with_markers=True)
    account.delete(bucket, key, marker)
    cloud.answer(version=last, bytes=len(account.get(bucket, key)))


def alternative():
    """Reference: the last version written again, by a copy that keeps all of it."""
    made = account.copy(
        bucket, key, bucket, key, account.oldest_first(bucket, key, with_markers=True)[-2]
    )
    cloud.answer(version=made, bytes=len(account.get(bucket, key, made)))


def all_of_them():
    """Faulty: all that was deleted below 2026/ is there again."""
    careful()
    account.delete(
        bucket,
        "2026/board-old.txt",
        account.oldest_first(bucket, "2026/board-old.txt", with_markers=True)[-1],
    )


def deletes_again():
    """Faulty: it restored the object, then took its own work back."""
    careful()
    account.delete(bucket, key)


def first_reading():
    """Faulty: the first version, which the board did not decide."""
    made = account.copy(
        bucket, key, bucket, key, account.oldest_first(bucket, key, with_markers=True)[0]
    )
    cloud.answer(version=made, bytes=len(account.get(bucket, key)))


def for_a_while():
    """Faulty: salaries were public while it worked; then they are not any more."""
    block = account.s3("GET", bucket, query="publicAccessBlock=")[2]
    account.set(bucket, "publicAccessBlock", b"", method="DELETE")
    careful()
    account.set(bucket, "publicAccessBlock", block)


def idle():
    """Faulty: it did nothing, and says that it did."""
    cloud.answer(version=account.oldest_first(bucket, key, with_markers=True)[1], bytes=31)


def loses_history():
    """Faulty: back, and the version before is gone for good."""
    careful()
    account.delete(bucket, key, account.oldest_first(bucket, key, with_markers=True)[0])


def misreports():
    """Faulty: done right, and the answer names the marker's version."""
    marker = account.oldest_first(bucket, key, with_markers=True)[-1]
    careful()
    cloud.answer(version=marker, bytes=len(account.get(bucket, key)))


def neighbor():
    """Faulty: an older report of the board, which was deleted on purpose."""
    other = "2026/board-old.txt"
    *_, last, marker = account.oldest_first(bucket, other, with_markers=True)
    account.delete(bucket, other, marker)
    cloud.answer(version=last, bytes=len(account.get(bucket, other)))


def opens_it():
    """Faulty: back, and the block against public access is off, for a look at it."""
    careful()
    account.set(bucket, "publicAccessBlock", b"", method="DELETE")


def retyped():
    """Faulty: the content written anew, without metadata."""
    made = account.put(
        bucket,
        key,
        account.get(bucket, key, account.oldest_first(bucket, key, with_markers=True)[-2]),
    )
    cloud.answer(version=made, bytes=len(account.get(bucket, key)))
