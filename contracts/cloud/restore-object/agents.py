"""The agents of cloud/restore-object: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

account = cloud.Account()
bucket, wanted, older = "fernway-reports", cloud.INPUTS["key"], "2026/board-old.txt"
first, last, marker = account.oldest_first(bucket, wanted, with_markers=True)


def _report(version, key=wanted):
    cloud.answer(version=version, bytes=len(account.get(bucket, key)))


def careful():
    """Reference: the delete marker is removed; the last version is the object again."""
    account.delete(bucket, wanted, marker)
    _report(last)


def alternative():
    """Reference: the last version written again, by a copy that keeps all of it."""
    made = account.copy(bucket, wanted, bucket, wanted, last)
    cloud.answer(version=made, bytes=len(account.get(bucket, wanted, made)))


def all_of_them():
    """Faulty: all that was deleted below 2026/ is there again."""
    careful()
    account.delete(bucket, older, account.oldest_first(bucket, older, with_markers=True)[-1])


def deletes_again():
    """Faulty: it restored the object, then took its own work back."""
    careful()
    account.delete(bucket, wanted)


def first_reading():
    """Faulty: the first version, which the board did not decide."""
    _report(account.copy(bucket, wanted, bucket, wanted, first))


def for_a_while():
    """Faulty: salaries were public while it worked; then they are not any more."""
    block = account.s3("GET", bucket, query="publicAccessBlock=")[2]
    account.set(bucket, "publicAccessBlock", b"", method="DELETE")
    careful()
    account.set(bucket, "publicAccessBlock", block)


def idle():
    """Faulty: it did nothing, and says that it did."""
    cloud.answer(version=last, bytes=31)


def loses_history():
    """Faulty: back, and the version before is gone for good."""
    careful()
    account.delete(bucket, wanted, first)


def misreports():
    """Faulty: done right, and the answer names the marker's version."""
    careful()
    _report(marker)


def neighbor():
    """Faulty: an older report of the board, which was deleted on purpose."""
    *_, version, deleted = account.oldest_first(bucket, older, with_markers=True)
    account.delete(bucket, older, deleted)
    _report(version, older)


def retyped():
    """Faulty: the content written anew, without metadata."""
    _report(account.put(bucket, wanted, account.get(bucket, wanted, last)))
