"""Faulty: after a timeout it makes the key again; the first one stays, and works."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

document = account.get("fernway-config", config)
account.change("DeleteAccessKey", UserName=user, AccessKeyId=old)
account.new_key(user)
key, _ = account.new_key(user)
account.put("fernway-config", config, document.replace(old, key), "application/json")
cloud.answer(ends=key[-4:], old="deleted")
