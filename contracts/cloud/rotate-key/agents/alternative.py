"""Reference: the id replaced in the text, tried with the new key, then the old key deleted."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

key, secret = account.new_key(user)
service = cloud.Account(key=key, secret=secret)
service.get("fernway-intake", "courier/2026-10-13.txt")
document = account.get("fernway-config", config).replace(old, key)
account.put("fernway-config", config, document, "application/json")
account.change("DeleteAccessKey", UserName=user, AccessKeyId=old)
cloud.answer(ends=key[-4:], old="deleted")
