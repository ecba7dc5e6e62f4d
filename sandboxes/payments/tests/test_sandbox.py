"""The payment API does what every system of a sandbox does, and what an agent leaves is gone."""

import contextlib
import http.client
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from statediff_payments.sandbox import EmbeddedPayments, read_seed

from sandboxes.payments.tests.api import asked, post
from statediff.conformance import AccountSuite, Change, FeedSuite, Way
from statediff.errors import SandboxError
from statediff.packs import SandboxPack, sandbox_pack
from statediff.systems.base.protocol import System

pytestmark = pytest.mark.pack("statediff[payments]")
LATE = "DE89370400440532013000"


def refund(system: System, charge: str = "ch_1018", **more: object) -> Any:
    """One refund, under a key, so that a lost answer makes no second."""
    for _ in range(2):
        with contextlib.suppress(http.client.HTTPException, OSError):
            headers = {"Idempotency-Key": f"{charge}-{sorted(more.items())}"}
            return post(system, "/v1/refunds", {"charge": charge, **more}, **headers)
    raise AssertionError("no answer")


def posts(path: str, **body: object) -> Callable[[System], object]:
    return lambda system: post(system, path, body)


def deletes(path: str) -> Callable[[System], object]:
    def act(system: System) -> None:
        status, gone = asked(system, "DELETE", path)
        assert status == 200, gone

    return act


def pays_later(system: System) -> None:
    """A debit that settles half a second after it was accepted."""
    method = post(
        system, "/v1/payment_methods", {"type": "sepa_debit", "sepa_debit": {"iban": LATE}}
    )
    body = {"amount": 500, "currency": "eur", "customer": "cus_ada", "payment_method": method["id"]}
    post(system, "/v1/payment_intents", {**body, "confirm": True})


def leaves_a_file(system: System) -> None:
    assert isinstance(system, EmbeddedPayments)
    (system.folder / "left").touch()


WAYS = {
    "a refund": Way(refund),
    "a customer's name": Way(posts("/v1/customers/cus_ada", name="Ada")),
    "a customer is gone": Way(deletes("/v1/customers/cus_cleo")),
    "a coupon": Way(posts("/v1/coupons", id="X", duration="once", percent_off=5)),
    "evidence": Way(posts("/v1/disputes/dp_1021", evidence={"uncategorized_text": "?"})),
    "a dispute given up": Way(posts("/v1/disputes/dp_1021/close")),
    "wider rights": Way(posts("/v1/api_keys/key_desk", rights=["*"])),
    "one more key": Way(posts("/v1/api_keys", name="spare", rights=["*"])),
    "a revoked key": Way(posts("/v1/api_keys/key_storefront", revoked=True)),
    "another class": Way(posts("/v1/customers/cus_ada", object="charge")),
    "a card moved": Way(posts("/v1/payment_methods/pm_inez/attach", customer="cus_ines")),
    "a subscription ended": Way(deletes("/v1/subscriptions/sub_nadia_club")),
    "a card by looking at it": Way(
        lambda system: asked(system, "GET", "/v1/payment_methods/pm_card_visa")
    ),
    "a balance by looking at it": Way(lambda system: asked(system, "GET", "/v1/balance")),
    "a payment that settles later": Way(pays_later),
    "an amount of another kind": Way(posts("/v1/refunds/re_1046", amount={"a": ["b"]})),
    "a file in its folder": Way(leaves_a_file, is_state=False),
}


class TestPayments(AccountSuite):
    source = "payments"
    ways: ClassVar = WAYS

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("payments")

    def lets_in(self, url: str) -> bool:
        try:
            return asked(self.running_system, "GET", "/v1/customers", url=url)[0] == 200
        except OSError:
            return False

    @pytest.fixture(autouse=True)
    def remember(self, running: System) -> None:
        self.running_system = running


class TestPaymentsFeed(FeedSuite):
    source = "payments"
    walks = 3
    changes: ClassVar = {
        "the amount of a refund": Change(
            posts("/v1/refunds/re_1046", amount=1), posts("/v1/refunds/re_1046", amount=9400)
        ),
        "rights": Change(
            posts("/v1/api_keys/key_storefront", rights=["*"]),
            posts(
                "/v1/api_keys/key_storefront",
                rights=["customers:write", "payment_intents:read", "payment_intents:write"],
            ),
        ),
        "a card": Change(
            posts("/v1/payment_methods/pm_inez/attach", customer="cus_ines"),
            posts("/v1/payment_methods/pm_inez/attach", customer="cus_inez"),
        ),
    }
    losses: ClassVar = {
        "its server is another": lambda system: system.reset(),
        "its server is gone": lambda system: system.unplug("payments"),
    }

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("payments")


def drift_of(system: EmbeddedPayments) -> set[str]:
    return {entry.what for entry in system.verify()[1]}


def test_drift_names_the_objects_that_differ(system):
    refund(system)
    found = drift_of(system)
    assert {what.split()[0] for what in found} >= {"refund", "balance_transaction", "answers"}
    system.reset()
    assert drift_of(system) == set()
    post(system, "/v1/api_keys/key_desk", {"rights": ["*"]})
    assert "api_key key_desk" in drift_of(system)


def test_the_first_refund_is_made_and_its_answer_is_lost(system):
    with pytest.raises((http.client.HTTPException, OSError)):
        post(system, "/v1/refunds", {"charge": "ch_1009", "amount": 3900})
    _, made = asked(system, "GET", "/v1/refunds?charge=ch_1009")
    assert [each["amount"] for each in made["data"]] == [3900]
    post(system, "/v1/refunds", {"charge": "ch_1009", "amount": 3900})
    _, twice = asked(system, "GET", "/v1/refunds?charge=ch_1009")
    assert len(twice["data"]) == 2


def test_under_one_idempotency_key_a_request_is_carried_out_once(system):
    key = {"Idempotency-Key": "once"}
    body = {"charge": "ch_1009", "amount": 3900, "reason": "duplicate"}
    with pytest.raises((http.client.HTTPException, OSError)):
        post(system, "/v1/refunds", body, **key)
    first, second = (post(system, "/v1/refunds", body, **key) for _ in range(2))
    assert first == second
    assert first["reason"] == "duplicate"
    assert asked(system, "POST", "/v1/refunds", {**body, "amount": 1}, **key)[0] == 400
    assert asked(system, "POST", "/v1/coupons", body, **key)[0] == 400
    _, made = asked(system, "GET", "/v1/refunds?charge=ch_1009")
    assert len(made["data"]) == 1


def test_rights_are_enforced_by_the_server(system):
    for path in ("/v1/payouts", "/v1/products", "/v1/plans"):
        assert asked(system, "POST", path, {})[0] == 403
    assert asked(system, "DELETE", "/v1/charges/ch_1009")[0] == 403
    assert asked(system, "GET", "/v1/customers", key="sk_guessed_1234567890")[0] == 401
    assert asked(system, "GET", "/v1/customers", key="")[0] == 200
    made = post(system, "/v1/api_keys", {"name": "reader", "rights": ["*:read"]})
    assert asked(system, "GET", "/v1/customers", key=made["secret"])[0] == 200
    assert asked(system, "POST", "/v1/refunds", {}, key=made["secret"])[0] == 403
    post(system, f"/v1/api_keys/{made['id']}", {"revoked": True})
    assert asked(system, "GET", "/v1/customers", key=made["secret"])[0] == 403
    assert "secret" not in str(asked(system, "GET", "/v1/api_keys"))


@pytest.mark.parametrize("path", ["/_config/data", "/_config/webhooks/a", "/js.stripe.com/v3/"])
def test_nobody_empties_the_store_or_has_events_sent_elsewhere(system, path):
    for method in ("GET", "POST", "DELETE"):
        body = {"url": "http://127.0.0.1:1", "secret": "s"}
        assert asked(system, method, path, body)[0] == 404
    assert drift_of(system) == set()


def test_a_dispute_is_answered_once_with_evidence_and_before_its_deadline(system):
    path = "/v1/disputes/dp_1021"
    assert asked(system, "POST", path, {"submit": True})[0] == 400
    assert asked(system, "POST", path, {"evidence": {"rumor": "x"}})[0] == 400
    assert asked(system, "POST", path, {"status": "won"})[0] == 400
    answered = post(system, path, {"evidence": {"shipping_carrier": "DHL"}, "submit": True})
    assert (answered["status"], answered["submission_count"]) == ("under_review", 1)
    assert asked(system, "POST", path, {"evidence": {"shipping_carrier": "UPS"}})[0] == 400
    assert asked(system, "POST", path + "/close", {})[0] == 400
    assert asked(system, "POST", "/v1/disputes", {"charge": "ch_1009"})[0] == 405


def test_it_settles_when_the_last_payment_has(system):
    pays_later(system)
    assert "not settled" in (system.unsettled(time.monotonic()) or "")
    assert system.unsettled(time.monotonic() + 10) is None
    _, charges = asked(system, "GET", "/v1/charges?customer=cus_ada")
    assert {each["status"] for each in charges["data"]} == {"succeeded"}


def test_a_server_that_was_killed_is_reported_and_back_after_a_reset(system):
    os.kill(system.process.pid, signal.SIGKILL)
    assert system.unsettled(time.monotonic() + 5)
    assert drift_of(system) == {"its server"}
    system.reset()
    assert drift_of(system) == set()


def test_a_trial_leaves_no_file_and_no_secret_of_another(system):
    first = system.url
    system.reset()
    assert urlsplit(first).username != urlsplit(system.url).username
    assert not Path("/tmp/localstripe.pickle").exists()  # localstripe's own


@pytest.mark.parametrize("text", ["now: 3", "{", "- a"])
def test_a_seed_that_is_none_is_refused_with_its_file(tmp_path, text):
    (tmp_path / "seed.yaml").write_text(text)
    with pytest.raises(SandboxError, match=r"seed\.yaml"):
        read_seed(tmp_path / "seed.yaml")
