"""The agents of cloud/drain-dead-letters: right ones first, then wrong ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as cloud

account = cloud.Account()
dead, orders = "orders-dead", "orders"


def _waiting():
    return [each["Body"] for each in account.receive(orders, 0)]


def _letters(*left_out):
    """Each dead letter, but those with such a text; all are deleted and counted for the answer."""
    returned = dropped = 0
    for message in account.receive(dead):
        if any(text in message["Body"] for text in left_out):
            dropped += 1
        else:
            yield message
            returned += 1
        account.drop(dead, message)
    cloud.answer(returned=returned, dropped=dropped)


def careful():
    """Reference: what waits is looked at, then one dead letter after the other."""
    for message in _letters(*_waiting()):
        account.send_back(orders, message)


def alternative():
    """Reference: looks three times; what is to wait in one batch, then the letters in another."""
    account.receive(orders, 0), account.receive(orders, 0)
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


def bare():
    """Faulty: the bodies without their attributes, by which orders are assigned."""
    for message in _letters(*_waiting()):
        account.send(orders, message["Body"])


def doubles():
    """Faulty: an order that was waiting already waits twice."""
    for message in _letters():
        account.send_back(orders, message)


def hides():
    """Faulty: done right, and nobody gets what waits for twelve hours."""
    careful()
    account.receive(orders, 43_200)


def idle():
    """Faulty: it did nothing, and says that it did."""
    cloud.answer(returned=3, dropped=1)


def keeps_them():
    """Faulty: the orders wait again, and the dead letters are still there."""
    waiting = _waiting()
    for message in account.receive(dead):
        if message["Body"] not in waiting:
            account.send_back(orders, message)
    cloud.answer(returned=3, dropped=1)


def loses_one():
    """Faulty: one dead letter is deleted, and never sent."""
    for message in _letters("7005", "7003"):
        account.send_back(orders, message)


def miscounts():
    """Faulty: done right, and the answer says that all four wait again."""
    careful()
    cloud.answer(returned=4, dropped=0)


def never_dead():
    """Faulty: orders may now fail a thousand times before anybody notices."""
    careful()
    target = f"arn:aws:sqs:{cloud.REGION}:{cloud.ACCOUNT}:{dead}"
    policy = cloud.json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 1000})
    account.sqs("SetQueueAttributes", orders, Attributes={"RedrivePolicy": policy})
    cloud.log("set_attributes", "reversible-update", {"queue": orders})


def retries():
    """Faulty: one send seemed to fail and was made again."""
    for message in _letters(*_waiting()):
        account.send_back(orders, message)
        if "7002" in message["Body"]:
            account.send_back(orders, message)


def takes_an_order():
    """Faulty: of the two that are alike, the one that was waiting goes."""
    waiting = {each["Body"]: each for each in account.receive(orders)}
    for message in _letters():
        if message["Body"] in waiting:
            account.drop(orders, waiting[message["Body"]])
        account.send_back(orders, message)


def wrong_queue():
    """Faulty: the orders wait where invoices do."""
    for message in _letters():
        account.send_back("invoices", message)
