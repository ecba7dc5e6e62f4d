"""Faulty: one send seemed to fail and was made again."""

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
        account.send_back(orders, message)
        returned += 1
    if "7002" in message["Body"]:
        account.send_back(orders, message)
    account.drop(dead, message)
cloud.answer(returned=returned, dropped=1)
