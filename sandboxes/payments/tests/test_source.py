"""A contract's reading of the payment API, whatever an agent had its objects hold."""

import http.client
import json
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from statediff_payments.sandbox import EmbeddedPayments
from statediff_payments.source import row_of

from sandboxes.payments.tests.api import asked, post
from statediff.model.state import MemoryChunks, State
from statediff.model.values import Map

pytestmark = pytest.mark.pack("statediff[payments]")


def state_of(system: EmbeddedPayments) -> State:
    [source] = system.sources()
    read = source.read(MemoryChunks(), lambda: datetime.now(UTC), None)
    assert read.reading.is_complete, read.reading.cause
    return read.state


def row(system: EmbeddedPayments, kind: str, key: str) -> dict[str, object]:
    found = state_of(system).tables[kind].row((key,))
    assert found is not None
    return dict(found)


def test_money_instants_and_references_are_typed(system):
    charge = row(system, "charge", "ch_1009")
    assert (charge["amount"], charge["currency"]) == (8900, "eur")
    assert charge["created"] == datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    assert charge["payment_intent"] == "pi_1009"
    assert row(system, "customer", "cus_ada")["default_payment_method"] == "pm_ada"
    assert row(system, "subscription_item", "si_nadia_club")["subscription"] == "sub_nadia_club"
    assert row(system, "invoice", "in_ines_club")["status"] == "open"


def test_secrets_are_in_no_row(system):
    rows = str([list(table.rows()) for table in state_of(system).tables.values()])
    for secret in ("4242111122224242", "_secret_", system.url.split("//")[1].split("@")[0]):
        assert secret not in rows


HOSTILE = {
    "half of a surrogate pair": b'{"name": "\\ud800"}',
    "NUL and controls": b'{"name": "\\u0000\\u0007"}',
    "not a number": b'{"metadata": {"a": NaN}}',
    "a number of 900 digits": b'{"account_balance": %s}' % (b"9" * 900),
    "a number of 2000 digits": b'{"account_balance": %s}' % (b"9" * 2000),
    "deep within": b'{"metadata": {"a": %s1%s}}' % (b"[" * 55, b"]" * 55),
    "an instant beyond the calendar": b'{"created": 99999999999999}',
    "an instant that is a list": b'{"created": [1, {"a": null}]}',
    "a large text": json.dumps({"description": "\u202e" * 30_000}).encode(),
    "a key of odd characters": b'{"metadata": {"\\u202e.[x]": "y"}}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_an_object_holds_is_a_change_that_is_read(system, name):
    before = state_of(system)
    status, _ = asked(
        system, "POST", "/v1/customers/cus_ada", raw=HOSTILE[name],
        **{"Content-Type": "application/json"},
    )  # fmt: skip
    after = state_of(system)
    assert status == 200
    assert after.tables["customer"].chunks != before.tables["customer"].chunks
    assert after.tables["charge"].chunks == before.tables["charge"].chunks


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"metadata": ' + b"[" * 100 + b"]" * 100 + b"}", "application/json"),
        (b"metadata" + b"[a]" * 100 + b"=1", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % n for n in range(5000)), "application/x-www-form-urlencoded"),
        (b"x" * 1_000_000, "application/json"),
        (b"[]", "application/json"),
        (b"--a--", "multipart/form-data; boundary=a"),
    ],
    ids=["deep", "deep form", "many", "huge", "no object", "multipart"],
)
def test_a_request_with_too_much_in_it_is_refused_and_changes_nothing(system, raw, kind):
    before = state_of(system).digest()
    status, _ = asked(system, "POST", "/v1/customers/cus_ada", raw=raw, **{"Content-Type": kind})
    assert status >= 400
    assert state_of(system).digest() == before
    assert system.verify()[1] == ()


def test_what_cannot_be_worked_out_any_more_is_a_change(system):
    post(system, "/v1/refunds/re_1046", {"amount": "much"})
    found = row(system, "charge", "ch_1046")
    assert found["amount_refunded"] == "cannot be worked out: TypeError"
    assert row(system, "refund", "re_1046")["amount"] == "much"


def test_a_new_refund_says_when_it_was_recorded_and_nobody_can_change_that(system):
    began = datetime.now(UTC)
    headers = {"Idempotency-Key": "a"}
    for _ in range(2):
        try:
            made = post(system, "/v1/refunds", {"charge": "ch_1009", "amount": 1}, **headers)
        except OSError:
            continue
    recorded = row(system, "refund", made["id"])["recorded_at"]
    assert began <= recorded <= datetime.now(UTC)
    body = {"recorded_at": 1}
    assert asked(system, "POST", f"/v1/refunds/{made['id']}", body)[0] == 400
    assert row(system, "refund", made["id"])["recorded_at"] == recorded


def test_an_object_of_no_known_class_is_shown_too():
    found = row_of("novelty", "n_1", '{"a": 1}')
    assert found == {"class": "novelty", "id": "n_1", "other": Map((("a", 1),))}


def test_each_answer_names_the_transactions_of_its_request(system):
    where = urlsplit(system.url.removeprefix("payments+"))
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    headers = {"Authorization": f"Bearer {where.username}"}
    named = []
    for method, path, body in (
        ("GET", "/v1/customers", None),
        ("POST", "/v1/customers/cus_ada", "phone=1"),
        ("POST", "/v1/customers/cus_ada", "phone=2"),
        ("POST", "/v1/customers/cus_none", "phone=2"),
    ):
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request(method, path, body, {**headers, **kind})
        answer = connection.getresponse()
        answer.read()
        named.append(answer.headers["X-Transactions"])
    connection.close()
    assert named == ["", "1", "2", ""]
