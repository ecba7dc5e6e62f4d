"""Faulty: the folder beside it went into the archive too, salaries included."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"


def oldest_first():
    """The ids of the versions, in the order in which they were written."""
    found = cloud.tree(account.s3("GET", source, "", f"versions=&prefix={key}")[2])
    listed = [each for each in found if cloud.name(each) == "Version"]
    listed.sort(key=lambda each: cloud.text(each, "LastModified"))
    return [cloud.text(each, "VersionId") for each in listed]


cloud.work_as("careful")
account.copy(source, "internal/salaries.txt", archive, "internal/salaries.txt")
