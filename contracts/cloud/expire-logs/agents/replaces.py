"""Faulty: the lifecycle is the new rule alone; audit logs move nowhere and never expire."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, prefix, days = "fernway-logs", cloud.INPUTS["prefix"], cloud.INPUTS["days"]


def replace(text):
    """The bucket has these rules and no others."""
    account.set(bucket, "lifecycle", f"<LifecycleConfiguration>{text}</LifecycleConfiguration>")


def rule(below, after, status="Enabled", named="app-logs"):
    """One rule that expires what begins so."""
    return (
        f"<Rule><ID>{named}</ID><Filter><Prefix>{below}</Prefix></Filter><Status>{status}</Status>"
        f"<Expiration><Days>{after}</Days></Expiration></Rule>"
    )


replace(rule(prefix, days))
cloud.answer(rules=1, id="app-logs")
