"""moto's services in a process of their own: loaded once, seeded once, forked for each trial.

`python -m statediff_cloud.server`, by `base.forking`. What it is asked:

order        `account`, `seed`
trial order  `secrets`: access key → its secret, for every key of the seed
question     `{}`, how many requests are in progress; `{"state": true}`; `{"history": n}`, the
             states after the first n; `{"proof": true}`, the digest of its memory, and
             `{"lines": true}`, the lines behind it

The state is moto's memory as plain rows, by entity type (`types`). Cells are what JSON can say:
texts, numbers, truth values, null, lists and objects; instants are ISO texts with `Z`. Secrets of
keys and sessions are in no row, of passwords their digests. Rows are sorted by nothing: the source
sorts. At most `MAX_ROWS` of a type are given; `Rows.more` counts the others. What cannot be read of
one bucket or queue, or of identities, leaves its types incomplete and no other: moto keeps much of
what a request says as it was said.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import moto.iam.responses
import moto.s3.responses
import moto.sqs.responses
import moto.sts.responses  # noqa: F401 - loaded before anybody asks
from moto import settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.iam.models import Policy, get_account_id_from, iam_backends
from moto.moto_api._internal import mock_random
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from moto.sqs.models import SQSBackend, sqs_backends
from moto.sts.models import sts_backends

from statediff.systems.base.forking import Control, Order, Serve, run
from statediff.systems.base.wsgi import Counted, LoopbackServer
from statediff_cloud import seed
from statediff_cloud.buckets import add_bucket
from statediff_cloud.gate import SERVICES, Gate
from statediff_cloud.identities import add_identities, add_sessions
from statediff_cloud.proof import digest_of, lines_of
from statediff_cloud.queues import add_queue
from statediff_cloud.rows import Rights, Rows, add_results
from statediff_cloud.types import BUCKET_TYPES, IDENTITY_TYPES, QUEUE_TYPES, RESULT_TYPES


def load(order: Order) -> Serve:
    """The account is there, as seeded; a trial needs no more than to listen."""
    account = str(order["account"])
    settings.S3_IGNORE_SUBDOMAIN_BUCKETNAME = True
    _stop_the_clock()
    held: Any = Policy
    held.update_default_version = _one_default
    try:
        seed.make(order["seed"], account)
    except seed.SeedError as error:
        sys.exit(str(error))
    dispatcher = DomainDispatcherApplication(create_backend_app)
    for service in sorted(SERVICES):
        made: Any = create_backend_app(service)
        dispatcher.app_instances[service] = made
    get_account_id_from("")  # what every request looks at is there, so that looking leaves nothing
    for backends in (s3_backends, sts_backends):
        for partition in iam_backends[account]:
            backends[account][partition]
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    ActionAuthenticatorMixin.request_count = 0
    rows_of(account)  # what the first look takes time for, each child has from here
    gc.collect()
    gc.freeze()  # so that collecting garbage in a child copies no page of what it was given

    def serve(trial: Order, control: Control) -> None:
        mock_random.seed()
        for name, secret in trial["secrets"].items():
            iam_backends[account]["aws"].access_keys[name].secret_access_key = secret
        gate = Gate(dispatcher, account, lambda: rows_of(account))
        counted = Counted(gate)
        server = LoopbackServer()
        server.set_app(counted)

        def answer(question: Order) -> Order:
            with gate.lock if question else _NOBODY:
                return {"in_progress": counted.in_progress, **_answer(question, gate)}

        control.ready({"port": server.server_port}, answer)
        server.serve_forever()

    return serve


class _Nobody:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


_NOBODY = _Nobody()


def _answer(question: Order, gate: Gate) -> Order:
    if "state" in question:
        return {"state": json.loads(gate.state())}
    if "history" in question:
        return gate.history.answer(int(question["history"]), gate.state())
    if "lines" in question:
        return {"lines": lines_of(_roots())}
    if "proof" in question:
        return {"digest": digest_of(lines_of(_roots()))}
    return {}


def _roots() -> dict[str, Any]:
    """All that any request may have changed, in whatever account and region."""
    services: dict[str, Any] = {
        "iam": iam_backends,
        "s3": s3_backends,
        "sqs": sqs_backends,
        "sts": sts_backends,
    }
    return {
        f"{name}.{account}.{region}": backend
        for name, backends in services.items()
        for account, regions in list(backends.items())
        for region, backend in list(regions.items())
    }


def _one_default(policy: Any, chosen: str) -> None:
    """As AWS does it: moto leaves a policy without a default that is given the one it has."""
    policy.default_version_id = chosen
    for version in policy.versions:
        version.is_default = version.version_id == chosen


def _is_kept(_backend: SQSBackend, _queue: str, _message: object) -> bool:
    return True


def _stop_the_clock() -> None:
    """Nothing happens by itself: a message does not expire, and who asks for one does not wait."""
    receive = SQSBackend.receive_message

    def receive_at_once(
        self: SQSBackend, queue_name: str, count: int, wait: int, *more: Any, **named: Any
    ) -> Any:
        del wait
        return receive(self, queue_name, count, 0, *more, **named)

    queues: Any = SQSBackend
    queues.receive_message = receive_at_once
    queues.is_message_valid_based_on_retention_period = _is_kept


def rows_of(account: str) -> Rows:
    """All that the account holds."""
    into, rights = Rows(), Rights(account)
    with into.despite_damage(*IDENTITY_TYPES):
        add_identities(iam_backends[account]["aws"], into, rights)
    add_sessions(into)
    backend = s3_backends[account]["aws"]
    for bucket in backend.buckets.values():
        with into.despite_damage(*BUCKET_TYPES):
            add_bucket(bucket, backend, into, rights)
    for region, queues in sqs_backends[account].items():
        for queue in queues.queues.values():
            with into.despite_damage(*QUEUE_TYPES):
                add_queue(queue, region, into, rights)
    with into.despite_damage(*RESULT_TYPES):
        add_results(into, rights)
    return into


if __name__ == "__main__":
    run(load)
