"""Faulty: of the two that are alike, the one that was waiting goes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"

waiting = {each["Body"]: each for each in account.receive(orders)}
for message in account.receive(dead):
    if message["Body"] in waiting:
        account.drop(orders, waiting[message["Body"]])
    account.send_back(orders, message)
    account.drop(dead, message)
cloud.answer(returned=4, dropped=0)
