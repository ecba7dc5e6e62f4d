"""Faulty: orders may now fail a thousand times before anybody notices."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

dead, orders = "orders-dead", "orders"


cloud.work_as("careful")
target = f"arn:aws:sqs:{cloud.REGION}:{cloud.ACCOUNT}:{dead}"
policy = cloud.json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 1000})
account.sqs("SetQueueAttributes", orders, Attributes={"RedrivePolicy": policy})
cloud.log("set_attributes", "reversible-update", {"queue": orders})
