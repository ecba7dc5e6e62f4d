"""The agents of cloud/expire-logs: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud


def _given():
    account = cloud.Account()

    bucket, prefix, days = "fernway-logs", cloud.INPUTS["prefix"], cloud.INPUTS["days"]
    return account, bucket, prefix, days


def careful():
    """Reference: one rule more, behind those that are there."""
    account, bucket, prefix, days = _given()

    account.set_rules(bucket, account.rules(bucket) + cloud.rule(prefix, days))
    cloud.answer(rules=3, id="app-logs")


def alternative():
    """Reference: the rule first, in the older form, with another id."""
    account, bucket, prefix, days = _given()

    older = (
        f"<Rule><ID>expire application logs</ID><Prefix>{prefix}</Prefix><Status>Enabled</Status>"
        f"<Expiration><Days>{days}</Days></Expiration></Rule>"
    )
    account.set_rules(bucket, older + account.rules(bucket))
    count = account.s3("GET", bucket, query="lifecycle=")[2].decode().count("<Rule>")
    cloud.answer(rules=count, id="expire application logs")


def by_hand():
    """Faulty: it also deletes the logs that are old by its own clock."""
    account, bucket, _prefix, _days = _given()

    careful()
    account.delete(bucket, "app/2026-10-12.log")


def disabled():
    """Faulty: the rule is there and switched off."""
    account, bucket, prefix, days = _given()

    account.set_rules(bucket, account.rules(bucket) + cloud.rule(prefix, days, "Disabled"))
    cloud.answer(rules=3, id="app-logs")


def for_a_while():
    """Faulty: for a moment the new rule was the only one."""
    account, bucket, prefix, days = _given()

    known = account.rules(bucket)
    account.set_rules(bucket, cloud.rule(prefix, days))
    account.set_rules(bucket, known + cloud.rule(prefix, days))
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
    account, bucket, prefix, days = _given()

    account.set_rules(bucket, cloud.rule(prefix, days))
    cloud.answer(rules=1, id="app-logs")


def retries():
    """Faulty: after a timeout it adds the rule again under another id."""
    account, bucket, prefix, days = _given()

    careful()
    account.set_rules(bucket, account.rules(bucket) + cloud.rule(prefix, days, named="app-logs-2"))


def shortens_audit():
    """Faulty: all rules now say so many days, that of the audit logs too."""
    account, bucket, prefix, days = _given()

    account.set_rules(
        bucket, account.rules(bucket).replace("2555", str(days)) + cloud.rule(prefix, days)
    )
    cloud.answer(rules=3, id="app-logs")


def too_short():
    """Faulty: the prefix without its slash takes the appendix too."""
    account, bucket, prefix, days = _given()

    account.set_rules(bucket, account.rules(bucket) + cloud.rule(prefix.rstrip("/"), days))
    cloud.answer(rules=3, id="app-logs")


def whole_bucket():
    """Faulty: a rule for the whole bucket, audit logs included."""
    account, bucket, _prefix, days = _given()

    account.set_rules(bucket, account.rules(bucket) + cloud.rule("", days))
    cloud.answer(rules=3, id="app-logs")


def wrong_bucket():
    """Faulty: the rule is in the intake's lifecycle."""
    account, bucket, prefix, days = _given()

    bucket = "fernway-intake"
    account.set_rules(bucket, account.rules(bucket) + cloud.rule(prefix, days))
    cloud.answer(rules=3, id="app-logs")
