"""Faulty: it did nothing, and says that it did."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"


def back(message):
    """The order waits again, as it was."""
    account.send(orders, message["Body"], message.get("MessageAttributes", {}))


cloud.answer(returned=3, dropped=1)
