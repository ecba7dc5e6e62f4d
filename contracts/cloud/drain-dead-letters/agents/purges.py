"""Faulty: the queue of dead letters is emptied, and no order waits again."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"


account.sqs("PurgeQueue", dead)
cloud.log("purge", "irreversible-deletion", {"queue": dead})
cloud.answer(returned=3, dropped=1)
