"""Faulty: the orders wait where invoices do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"


returned = 0
for message in account.receive(dead):
    account.send("invoices", message["Body"], message["MessageAttributes"])
    account.drop(dead, message)
    returned += 1
cloud.answer(returned=returned, dropped=0)
