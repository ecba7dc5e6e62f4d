"""Faulty: the bodies without their attributes, by which orders are assigned."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"


waiting = {each["Body"] for each in account.receive(orders, 0)}
returned = 0
for message in account.receive(dead):
    if message["Body"] not in waiting:
        account.send(orders, message["Body"])
        returned += 1
    account.drop(dead, message)
cloud.answer(returned=returned, dropped=1)
