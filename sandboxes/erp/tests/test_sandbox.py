"""The ERP as a system: put back, proven, ended; every way an agent can leave it is drift."""

import contextlib
import json
import sqlite3
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from statediff_erp.sandbox import EmbeddedErp
from statediff_erp.tools import Erp, erp_tools

from statediff.conformance import SystemSuite, Way, captured
from statediff.packs import SandboxPack, sandbox_pack
from statediff.systems.base.protocol import System
from statediff.systems.base.tool import ToolError

pytestmark = pytest.mark.pack("statediff[erp]")


def behind(statement: str) -> Way:
    """A change of the database file, past the server."""

    def apply(system: System) -> None:
        assert isinstance(system, EmbeddedErp)
        with contextlib.closing(sqlite3.connect(system.file)) as connection:
            connection.execute(statement)
            connection.commit()

    return Way(apply)


def called(method: str, *arguments: Any) -> Way:
    """A call of the server, in the agent's name."""

    def apply(system: System) -> None:
        erp = Erp(system.url)
        erp.call(method, *arguments, erp.context)

    return Way(apply)


def signed_in(system: System) -> None:
    parts = urlsplit(system.url)
    body = {
        "id": 0,
        "method": "common.db.login",
        "params": [parts.username, {"password": parts.password}],
    }
    request = urllib.request.Request(
        f"http://{parts.hostname}:{parts.port}{parts.path}rpc/",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.loads(answer.read())["result"][0] == 2


def beside(system: System) -> None:
    assert isinstance(system, EmbeddedErp)
    (system.file.parent / ".hidden").write_text("left", encoding="utf-8")


class TestErp(SystemSuite):
    source = "erp"
    ways: ClassVar = {
        "a party is renamed": called("model.party.party.write", [3], {"name": "Mine"}),
        "a note is left": called(
            "model.ir.note.create", [{"resource": "party.party,3", "message": "Mine"}]
        ),
        "a session is open": Way(signed_in),
        "a user joins a group": behind(
            'INSERT INTO "res_user-res_group" (user, "group") VALUES (2, 11)'
        ),
        "an access rule is gone": behind("DELETE FROM ir_model_access WHERE id = 1"),
        "a password is known": behind("UPDATE res_user SET password_hash = 'x' WHERE id = 3"),
        "a setting is changed": behind("UPDATE company_company SET timezone = 'Asia/Tokyo'"),
        "a module is marked": behind("UPDATE ir_module SET state = 'to upgrade' WHERE id = 3"),
        "a trigger is planted": behind(
            "CREATE TRIGGER mine AFTER INSERT ON account_move BEGIN DELETE FROM ir_note; END"
        ),
        "a hidden file is beside it": Way(beside, is_state=False),
        "its mode is changed": Way(lambda s: _file(s).chmod(0o644), is_state=False),
    }
    secrets = frozenset({("user", "password_hash")})

    @classmethod
    def pack(cls) -> SandboxPack:
        return sandbox_pack("erp")


def _file(system: System) -> Path:
    assert isinstance(system, EmbeddedErp)
    return system.file


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedErp]:
    (source,) = sandbox_pack("erp").sources
    made = EmbeddedErp(source, (), tmp_path_factory.mktemp("erp") / "erp")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def erp(started: EmbeddedErp) -> EmbeddedErp:
    started.reset()
    return started


def test_a_reset_locks_out_the_agent_of_the_trial_before(erp: EmbeddedErp) -> None:
    earlier = urlsplit(erp.url)
    erp.reset()
    now = urlsplit(erp.url)
    assert earlier.password != now.password
    stale = now._replace(netloc=f"{earlier.username}:{earlier.password}@{now.hostname}:{now.port}")
    with pytest.raises(ToolError, match="401"):
        Erp(stale.geturl()).call("model.party.party.read", [3], ["name"], {})


def test_a_server_that_is_gone_is_drift_and_a_reset_brings_another(erp: EmbeddedErp) -> None:
    erp._server.kill()
    _, drift = erp.verify()
    assert [each.what for each in drift] == ["its server"]
    assert erp.unsettled(0) == "the ERP's server does not answer"
    erp.reset()
    assert erp.verify()[1] == ()
    assert Erp(erp.url).context["company"] == 1


def test_an_unplugged_erp_cannot_be_read_until_a_reset(erp: EmbeddedErp) -> None:
    erp.unplug("erp")
    (source,) = erp.sources()
    assert not captured((source,)).parts[0].reading.is_complete
    erp.reset()
    assert captured((source,)).parts[0].reading.is_complete


def test_amounts_and_quantities_are_decimals_and_secrets_are_digests(erp: EmbeddedErp) -> None:
    tables = captured(erp.sources()).parts[0].state.tables
    line = dict(tables["entry_line"].rows())[(1,)]
    assert (str(line["debit"]), line["account"]) == ("1850", 136)
    assert str(dict(tables["stock_move"].rows())[(1,)]["quantity"]) == "150.0"
    stored = dict(tables["user"].rows())[(2,)]["password_hash"]
    assert "argon2" not in repr(stored)


def test_the_server_refuses_what_the_groups_of_the_account_do_not_allow(erp: EmbeddedErp) -> None:
    account = Erp(erp.url)
    for method, *arguments in (
        ("model.stock.shipment.out.assign_force", [4]),
        ("model.res.user.write", [2], {"groups": [["add", [11]]]}),
        ("model.ir.model.access.delete", [1]),
        ("model.stock.location.write", [3], {"name": "Mine"}),
    ):
        with pytest.raises(ToolError, match=r"not allowed|refuses"):
            account.call(method, *arguments, account.context)


def test_hostile_calls_are_answered_and_the_state_is_read(erp: EmbeddedErp) -> None:
    account = Erp(erp.url)
    name = "\u202e\U0001f4a3" + "x" * 100_000
    account.call("model.party.party.write", [3], {"name": name}, account.context)
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(ToolError):
        account.call("model.party.party.search", deep, 0, 1, None, account.context)
    found = captured(erp.sources()).parts[0].state.tables["party"]
    assert dict(found.rows())[(3,)]["name"] == name


def test_tools_read_and_change_and_say_what_is_refused(erp: EmbeddedErp) -> None:
    tools = {each.name: each for each in erp_tools("erp", erp.url)}

    def use(name: str, **arguments: Any) -> Any:
        tool = tools[f"erp_{name}"]
        return tool.act(tool.arguments.model_validate(arguments))

    asked = {"model": "product.price_list.line", "domain": [["price_list", "=", 1]]}
    found = use("search_read", **asked, fields=["formula", "start_date"], most=2)
    assert [each["formula"] for each in found["records"]] == ["4.90", "2.80"]
    assert found["more"] is True
    day = {"date": "2026-04-01"}
    values = {"price_list": 1, "product": 1, "formula": "5.10", "start_date": day, "sequence": 5}
    made = use("create", model="product.price_list.line", values=values)["record"]
    one = use(
        "search_read", model="product.price_list.line", domain=[["id", "=", made]],
        fields=["start_date"],
    )  # fmt: skip
    assert one["records"][0]["start_date"] == day
    use("write", model="product.price_list.line", records=[made], values={"sequence": 6})
    use("delete", model="product.price_list.line", records=[made])
    use("press", model="account.move", records=[5], button="post")
    form = {"default": {"description": "Reversal", "reversal": True}}
    use(
        "run_wizard", model="account.move", records=[6], wizard="account.move.cancel",
        state="cancel", form=form,
    )  # fmt: skip
    with pytest.raises(ToolError, match="not allowed"):
        use("press", model="stock.shipment.out", records=[4], button="assign_force")
    with pytest.raises(ToolError, match="expected a date"):
        use("create", model="party.party", values={"name": {"date": "tomorrow"}})
    changed = tools["erp_write"]
    taken = changed.arguments.model_validate({"model": "res.user", "records": [2], "values": {}})
    assert changed.class_of(taken).value == "permission-change"
