"""Reference: what waits is looked at, then one dead letter after the other."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"

waiting = {each["Body"] for each in account.receive(orders, 0)}
returned = dropped = 0
for message in account.receive(dead):
    if message["Body"] in waiting:
        dropped += 1
    else:
        account.send_back(orders, message)
        returned += 1
    account.drop(dead, message)
cloud.answer(returned=returned, dropped=dropped)
