"""Faulty: it makes the key again, as if the first call had been lost; both keys work."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

document = account.get("fernway-config", config)
key, _ = account.new_key(user)
account.put("fernway-config", config, document.replace(old, key), "application/json")
account.change("DeleteAccessKey", UserName=user, AccessKeyId=old)
account.new_key(user)
cloud.answer(ends=key[-4:], old="deleted")
