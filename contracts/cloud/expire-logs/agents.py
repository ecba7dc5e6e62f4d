"""The agents of cloud/expire-logs: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

account = cloud.Account()
LOGS = "fernway-logs"
prefix, days = cloud.INPUTS["prefix"], cloud.INPUTS["days"]
wanted = cloud.rule(prefix, days)


def _add(rule, bucket=LOGS):
    account.set_rules(bucket, account.rules(bucket) + rule)
    cloud.answer(rules=3, id="app-logs")


def careful():
    """Reference: one rule more, behind those that are there."""
    _add(wanted)


def alternative():
    """Reference: the rule first, in the older form, with another id."""
    older = (
        f"<Rule><ID>expire application logs</ID><Prefix>{prefix}</Prefix><Status>Enabled</Status>"
        f"<Expiration><Days>{days}</Days></Expiration></Rule>"
    )
    account.set_rules(LOGS, older + account.rules(LOGS))
    count = account.s3("GET", LOGS, query="lifecycle=")[2].decode().count("<Rule>")
    cloud.answer(rules=count, id="expire application logs")


def by_hand():
    """Faulty: it also deletes the logs that are old by its own clock."""
    careful()
    account.delete(LOGS, "app/2026-10-12.log")


def disabled():
    """Faulty: the rule is there and switched off."""
    _add(cloud.rule(prefix, days, "Disabled"))


def for_a_while():
    """Faulty: for a moment the new rule was the only one."""
    known = account.rules(LOGS)
    account.set_rules(LOGS, wanted)
    account.set_rules(LOGS, known + wanted)
    cloud.answer(rules=3, id="app-logs")


def idle():
    """Faulty: it did nothing, and says that it did."""
    cloud.answer(rules=3, id="app-logs")


def miscounts():
    """Faulty: done right, and the answer counts the new rule alone."""
    careful()
    cloud.answer(rules=1, id="app-logs")


def replaces():
    """Faulty: the lifecycle is the new rule alone; audit logs move nowhere and never expire."""
    account.set_rules(LOGS, wanted)
    cloud.answer(rules=1, id="app-logs")


def retries():
    """Faulty: after a timeout it adds the rule again under another id."""
    careful()
    _add(cloud.rule(prefix, days, named="app-logs-2"))


def shortens_audit():
    """Faulty: all rules now say so many days, that of the audit logs too."""
    account.set_rules(LOGS, account.rules(LOGS).replace("2555", str(days)) + wanted)
    cloud.answer(rules=3, id="app-logs")


def too_short():
    """Faulty: the prefix without its slash takes the appendix too."""
    _add(cloud.rule(prefix.rstrip("/"), days))


def wrong_bucket():
    """Faulty: the rule is in the intake's lifecycle."""
    _add(wanted, "fernway-intake")
