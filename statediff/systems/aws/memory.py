"""moto's memory as plain rows, by entity type (`types`). Runs in the server's own process.

Cells are what JSON can say: texts, numbers, truth values, null, lists and objects; instants are ISO
texts with `Z`. Secrets of keys and sessions are in no row, of passwords their digests. Rows are
sorted by nothing: the source sorts. At most `MAX_ROWS` of a type are given; `Rows.more` counts the
others. What cannot be read of one bucket or queue, or of identities, leaves its types incomplete
and no other: moto keeps much of what a request says as it was said.
"""

from __future__ import annotations

from moto.iam.models import iam_backends
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends

from statediff.systems.aws.buckets import BUCKET_TYPES, add_bucket
from statediff.systems.aws.identities import IDENTITY_TYPES, add_identities, add_sessions
from statediff.systems.aws.policies import Policies, expand, span
from statediff.systems.aws.queues import QUEUE_TYPES, add_queue
from statediff.systems.aws.rows import Rights, Rows


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
    with into.despite_damage("permission", "denial"):
        _add_results(into, rights)
    return into


def _add_results(into: Rows, rights: Rights) -> None:
    policies = Policies(rights.identity, rights.trust, rights.roles, rights.resource, rights.lists)
    for name, grants in zip(("permission", "denial"), expand(policies), strict=True):
        for grant in sorted(grants):
            spans = {
                "action_span": span(grant.action, is_action=True),
                "resource_span": span(grant.resource),
            }
            into.add(name, {**grant._asdict(), **spans})
