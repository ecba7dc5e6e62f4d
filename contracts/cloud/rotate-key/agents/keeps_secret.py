"""Faulty: the secret goes into the settings, where many may read it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()
user, old, config = (cloud.INPUTS[name] for name in ("user", "old", "config"))

document = cloud.json.loads(account.get("fernway-config", config))
key, secret = account.new_key(user)
document |= {"access_key_id": key, "secret_access_key": secret}
account.put("fernway-config", config, cloud.json.dumps(document), "application/json")
account.change("UpdateAccessKey", UserName=user, AccessKeyId=old, Status="Inactive")
cloud.answer(ends=key[-4:], old="inactive")
