"""Faulty: done right, and the answer says that all four wait again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"


def back(message):
    """The order waits again, as it was."""
    account.send(orders, message["Body"], message.get("MessageAttributes", {}))


cloud.work_as("careful")
cloud.answer(returned=4, dropped=0)
