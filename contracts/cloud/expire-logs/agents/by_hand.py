"""Faulty: it also deletes the logs that are old by its own clock."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, prefix, days = "fernway-logs", cloud.INPUTS["prefix"], cloud.INPUTS["days"]


def rules():
    """The rules as they are, as text."""
    found = account.s3("GET", bucket, query="lifecycle=")[2].decode()
    return found[found.index("<Rule>") : found.rindex("</Rule>") + 7]


def replace(text):
    """The bucket has these rules and no others."""
    account.set(bucket, "lifecycle", f"<LifecycleConfiguration>{text}</LifecycleConfiguration>")


def rule(below, after, status="Enabled", named="app-logs"):
    """One rule that expires what begins so."""
    return (
        f"<Rule><ID>{named}</ID><Filter><Prefix>{below}</Prefix></Filter><Status>{status}</Status>"
        f"<Expiration><Days>{after}</Days></Expiration></Rule>"
    )


cloud.work_as("careful")
account.delete(bucket, "app/2026-10-12.log")
