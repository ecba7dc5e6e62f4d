"""Faulty: the orders wait again, and the dead letters are still there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"

waiting = {each["Body"] for each in account.receive(orders, 0)}
missing = [each for each in account.receive(dead) if each["Body"] not in waiting]
for message in missing:
    account.send_back(orders, message)
cloud.answer(returned=len(missing), dropped=1)
