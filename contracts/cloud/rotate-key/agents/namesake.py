"""Faulty: the key of the service with nearly the same name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

other, stale = "courier-test", "AKIAFERNWAYCOURTEST1"
key, _ = account.new_key(other)
document = account.get("fernway-config", "courier-test.json")
account.put("fernway-config", "courier-test.json", document.replace(stale, key), "application/json")
account.change("UpdateAccessKey", UserName=other, AccessKeyId=stale, Status="Inactive")
cloud.answer(ends=key[-4:], old="inactive")
