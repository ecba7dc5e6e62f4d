"""Faulty: an order that was waiting already waits twice."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"

letters = account.receive(dead)
for message in letters:
    account.send_back(orders, message)
    account.drop(dead, message)
cloud.answer(returned=len(letters), dropped=0)
