"""Faulty: the settings are no JSON document any more for those who go by the type."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

document = account.get("fernway-config", config)
key, _ = account.new_key(user)
account.put("fernway-config", config, document.replace(old, key))
account.change("UpdateAccessKey", UserName=user, AccessKeyId=old, Status="Inactive")
cloud.answer(ends=key[-4:], old="inactive")
