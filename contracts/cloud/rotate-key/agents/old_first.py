"""Faulty: until the settings are written, the service has no key that works."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

account.change("UpdateAccessKey", UserName=user, AccessKeyId=old, Status="Inactive")
document = cloud.json.loads(account.get("fernway-config", config))
key, _ = account.new_key(user)
document["access_key_id"] = key
account.put("fernway-config", config, cloud.json.dumps(document), "application/json")
cloud.answer(ends=key[-4:], old="inactive")
