"""A Tryton server by URL: made by `trytond-admin`, served by `trytond`, changed by its RPC."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import httpx
import pytest
from statediff_erp.endpoint import TrytonEndpointSource

from statediff.capture.source import SourceUnavailable
from statediff.conformance import EndpointSuite, clock, free_port, serving
from statediff.errors import UsageError
from statediff.model.schema import Kind, Purpose
from statediff.model.state import MemoryChunks

pytestmark = pytest.mark.pack("statediff[erp]")

PASSWORD = "admin-pw"
MODELS = "?models=party.party,party.address,party.category,res.user,res.group"


def program(module: str) -> list[str]:
    """One of Tryton's own programs, as their scripts start it."""
    return [
        sys.executable,
        "-c",
        f"from trytond.{module} import main; raise SystemExit(main())",
    ]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tryton")
    number = free_port()
    config = folder / "trytond.conf"
    config.write_text(
        f"[database]\nuri = sqlite://\npath = {folder}\n[web]\nlisten = 127.0.0.1:{number}\n"
    )
    (folder / "password").write_text(PASSWORD)
    (folder / "demo.sqlite").touch()
    environment = {**os.environ, "TRYTONPASSFILE": str(folder / "password")}
    options = ["-c", str(config), "-d", "demo"]
    made = subprocess.run(
        [
            *program("cli.admin"),
            *options,
            *("-u", "party", "--activate-dependencies", "--email", "a@b.example"),
        ],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    with serving([*program("cli"), *options], number, folder):
        yield f"127.0.0.1:{number}/demo/"


def call(base: str, method: str, *arguments: Any) -> Any:
    """One call of the RPC, as its documentation has it."""
    answer = httpx.post(
        f"http://{base}rpc/",
        json={"id": 0, "method": method, "params": [*arguments, {}]},
        auth=("admin", PASSWORD),
        trust_env=False,
        timeout=60,
    ).json()
    assert "error" not in answer, answer
    return answer["result"]


class TestTryton(EndpointSuite):
    gone = "tryton+http://admin:pw@127.0.0.1:9/demo/"
    contract: ClassVar = """
contract: tests/rename-party
version: 1.0.0
owner: tests
intent: Rename the party Fernway to Fernway Ltd.
require:
  - id: renamed
    update: party.party
    where: it.code == "F1"
    set: {name: Fernway Ltd}
allow:
  - id: stamp
    update: party.party
    fields: [write_date, write_uid, last_modified_at]
    where: it.code == "F1"
"""

    @pytest.fixture
    def url(self, base: str) -> str:
        self.base = base
        every = [["active", "in", [True, False]]]
        known = call(base, "model.party.party.search", every, 0, None, [["id", "ASC"]])
        if not known:
            names = [{"name": "Fernway", "code": "F1"}, {"name": "Northwind"}]
            known = call(base, "model.party.party.create", names)
        self.party, self.other = known[:2]
        call(base, "model.party.party.write", [self.party], {"name": "Fernway", "active": True})
        return f"tryton+http://admin:{PASSWORD}@{base}{MODELS}"

    def right(self, url: str) -> None:
        del url
        call(self.base, "model.party.party.write", [self.party], {"name": "Fernway Ltd"})

    def more(self, url: str) -> None:
        call(self.base, "model.party.party.write", [self.party], {"name": "Fernway"})
        self.right(url)
        call(self.base, "model.party.party.write", [self.other], {"active": False})

    def ways(self, url: str) -> Mapping[str, Callable[[], object]]:
        del url
        base, party = self.base, self.party
        write, address = "model.party.party.write", {"party": party, "street": "1 Main"}
        return {
            "an address": lambda: call(base, "model.party.address.create", [address]),
            "not active": lambda: call(base, write, [party], {"active": False}),
            "a category, which a hidden model keeps": lambda: call(
                base, write, [party], {"categories": [["create", [{"name": "new"}]]]}
            ),
            "a user": lambda: call(
                base, "model.res.user.create", [{"login": "eve", "name": "Eve"}]
            ),
            "a right": lambda: call(
                base, "model.res.group.create", [{"name": "all", "users": [["add", [1]]]}]
            ),
        }


def test_fields_are_of_the_kinds_that_the_server_says(base: str) -> None:
    url = f"http+tryton://admin:{PASSWORD}@{base}{MODELS}"
    types = TrytonEndpointSource("erp", url).schema().by_name
    assert set(types) == set(MODELS.removeprefix("?models=").split(","))
    party = types["party.address"].by_name
    assert party["party"].reference == "party.party"
    assert (party["active"].kind, party["create_date"].kind) == (Kind.BOOL, Kind.TIMESTAMP)
    assert types["res.user"].purpose is Purpose.PERMISSIONS


def test_all_models_are_read_by_default(base: str) -> None:
    source = TrytonEndpointSource("erp", f"tryton+http://admin:{PASSWORD}@{base}")
    part = source.read(MemoryChunks(), clock, None)
    assert part.reading.is_complete, part.reading.cause
    assert {"ir.module", "ir.model.access", "party.party"} <= part.state.tables.keys()


def test_a_wrong_password_or_model_is_said(base: str) -> None:
    with pytest.raises(SourceUnavailable, match="does not let admin in"):
        TrytonEndpointSource("e", f"tryton+http://admin:other@{base}").schema()
    with pytest.raises(UsageError, match="no such model"):
        TrytonEndpointSource(
            "e", f"tryton+http://admin:{PASSWORD}@{base}?models=none.such"
        ).schema()
    with pytest.raises(UsageError, match="STATEDIFF_PASSWORD_E"):
        TrytonEndpointSource("e", f"tryton+http://admin@{base}")
