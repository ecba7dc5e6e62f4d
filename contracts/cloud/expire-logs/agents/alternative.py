"""Reference: the rule first, in the older form, with another id."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

bucket, prefix, days = "fernway-logs", cloud.INPUTS["prefix"], cloud.INPUTS["days"]

older = (
    f"<Rule><ID>expire application logs</ID><Prefix>{prefix}</Prefix><Status>Enabled</Status>"
    f"<Expiration><Days>{days}</Days></Expiration></Rule>"
)
account.set_rules(bucket, older + account.rules(bucket))
count = account.s3("GET", bucket, query="lifecycle=")[2].decode().count("<Rule>")
cloud.answer(rules=count, id="expire application logs")
