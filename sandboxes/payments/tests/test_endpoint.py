"""A payment API by URL: localstripe as its documentation starts it, changed by its API."""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import httpx
import pytest
from statediff_payments.endpoint import PaymentsEndpointSource

from statediff.capture.source import SourceUnavailable
from statediff.conformance import EndpointSuite, clock, free_port, serving
from statediff.errors import UsageError
from statediff.model.state import MemoryChunks

pytestmark = pytest.mark.pack("statediff[payments]")

PROGRAM = """
from localstripe.resources import Store
Store.dump_to_disk = lambda self: None  # one file in /tmp for every server of the machine
from localstripe.server import start
start()
"""
KEY = "sk_test_12345"
CARD = {"number": "4242424242424242", "exp_month": "12", "exp_year": "2035", "cvc": "123"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    number = free_port()
    command = [sys.executable, "-c", PROGRAM, "--port", str(number), "--from-scratch"]
    with serving(command, number, tmp_path_factory.mktemp("localstripe")):
        yield number


def ask(port: int, path: str, **form: str) -> Any:
    answer = httpx.post(
        f"http://127.0.0.1:{port}/v1/{path}", data=form, auth=(KEY, ""), trust_env=False
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


class TestLocalstripe(EndpointSuite):
    gone = f"payments+http://{KEY}@127.0.0.1:9/"
    contract: ClassVar = """
contract: tests/refund
version: 1.0.0
owner: tests
intent: Give back the charge of Ada, whole.
require:
  - id: refunded
    create: refund
    set: {amount: 500}
allow:
  - id: charge
    update: charge
    fields: [amount_refunded, other]
    where: it.description == "right"
  - {id: log, create: event}
  - {id: books, create: balance_transaction}
"""

    @pytest.fixture
    def url(self, port: int) -> str:
        self.port = port
        self.customer = ask(port, "customers", name="Ada", email="ada@fernway.example")["id"]
        form = {f"card[{name}]": each for name, each in CARD.items()}
        token = ask(port, "tokens", **form)["id"]
        ask(port, f"customers/{self.customer}/sources", source=token)
        paid = {"amount": "500", "currency": "eur", "customer": self.customer}
        self.charges = [ask(port, "charges", **paid, description="right")["id"] for _ in "123"]
        return f"payments+http://{KEY}@127.0.0.1:{port}/"

    def right(self, url: str) -> None:
        del url
        ask(self.port, "refunds", charge=self.charges.pop())

    def more(self, url: str) -> None:
        self.right(url)
        ask(self.port, f"customers/{self.customer}", email="eve@elsewhere.example")

    def ways(self, url: str) -> Mapping[str, Callable[[], object]]:
        del url
        port, customer = self.port, self.customer
        card = {f"card[{name}]": each for name, each in CARD.items()}
        return {
            "a coupon": lambda: ask(
                port, "coupons", id="FREE", percent_off="100", duration="forever"
            ),
            "a method": lambda: ask(
                port,
                f"payment_methods/{ask(port, 'payment_methods', type='card', **card)['id']}/attach",
                customer=customer,
            ),
            "an intent": lambda: ask(port, "payment_intents", amount="7", currency="eur"),
            "a tax id": lambda: ask(
                port, f"customers/{customer}/tax_ids", type="eu_vat", value="FR12345678901"
            ),
            "a note": lambda: ask(port, f"customers/{customer}", **{"metadata[a]": "b"}),
        }


def test_more_objects_than_a_page_are_all_listed(port: int) -> None:
    made = {ask(port, "products", name=f"p{n}", type="service")["id"] for n in range(105)}
    source = PaymentsEndpointSource("p", f"http+payments://x:{KEY}@127.0.0.1:{port}/")
    part = source.read(MemoryChunks(), clock, None)
    assert part.reading.is_complete, part.reading.cause
    assert made <= {row["id"] for _, row in part.state.tables["product"].rows()}


def test_a_wrong_key_is_no_empty_account(port: int) -> None:
    source = PaymentsEndpointSource("p", f"payments+http://wrong@127.0.0.1:{port}/")
    with pytest.raises(SourceUnavailable, match="does not take the key"):
        source.read(MemoryChunks(), clock, None)
    with pytest.raises(UsageError, match="STATEDIFF_PASSWORD_P"):
        PaymentsEndpointSource("p", f"payments+http://127.0.0.1:{port}/")
