"""Faulty: one dead letter is deleted, and never sent."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"

returned = 0
for message in account.receive(dead):
    if "7005" not in message["Body"] and "7003" not in message["Body"]:
        account.send_back(orders, message)
        returned += 1
    account.drop(dead, message)
cloud.answer(returned=returned, dropped=2)
