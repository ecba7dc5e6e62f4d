"""Reference: all that is to wait in one batch, then all dead letters in another."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"


letters = account.receive(dead)
waiting = [each["Body"] for each in account.receive(orders, 5)]
missing = [each for each in letters if each["Body"] not in waiting]
entries = [
    {"Id": str(n), "MessageBody": m["Body"], "MessageAttributes": m["MessageAttributes"]}
    for n, m in enumerate(missing)
]
account.sqs("SendMessageBatch", orders, Entries=entries)
cloud.log("send_batch", "notification", {"queue": orders, "messages": len(entries)})
gone = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(letters)]
account.sqs("DeleteMessageBatch", dead, Entries=gone)
cloud.log("delete_batch", "irreversible-deletion", {"queue": dead, "messages": len(gone)})
cloud.answer(returned=len(missing), dropped=len(letters) - len(missing))
