"""`capture`, `diff`, `lint`, `schema`, `doctor`, `sandbox`: the smaller doors."""

import importlib.metadata
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from statediff.cli.systems.machine import doctor
from statediff.workspace.installed import missing_servers
from tests.cli.conftest import BEFORE, CHECKOUT, JUDGE, PROGRAM, Call, Files, after, environment
from tests.cli.test_judge import database

SHOP = CHECKOUT / "sandboxes" / "shop"


@pytest.mark.usefixtures("files")
def test_capture_summarises_or_writes_plain_tables(statediff: Call, tmp_path: Path) -> None:
    database(tmp_path / "a.db", "open")
    said = statediff("capture", "a.db")
    assert said.code == 0
    assert "ticket" in said.out
    assert statediff("capture", "a.db", "--out", "tables.json").code == 0
    tables = json.loads((tmp_path / "tables.json").read_bytes())
    assert tables["ticket"] == BEFORE["ticket"]
    again = statediff("diff", "--before", "tables.json", "--after", "tables.json", "--json")
    assert again.json["deltas"] == []


@pytest.mark.usefixtures("files")
def test_a_captured_file_stands_in_for_the_system_it_came_from(
    statediff: Call, tmp_path: Path
) -> None:
    for name, status in (("a", "open"), ("b", "closed")):
        database(tmp_path / f"{name}.db", status)
        assert statediff("capture", f"{name}.db", "--out", f"{name}-tables.json").code == 0
    said = statediff("judge", "c.yaml", "--before", "a-tables.json", "--after", "b-tables.json")
    assert said.code == 0, said.err


def test_diff_needs_no_contract_and_ends_with_0(statediff: Call, files: Files) -> None:
    files.write("b.json", after(status="closed", users=[]))
    said = statediff("diff", "--before", "a.json", "--after", "b.json")
    assert said.code == 0
    assert said.out.startswith("2 changes\n")
    found = statediff("diff", "--before", "a.json", "--after", "b.json", "--json").json
    assert [(d["op"], d["id"]) for d in found["deltas"]] == [
        ("update", "ticket[7].status"), ("delete", "user[1]"),
    ]  # fmt: skip


def test_diff_takes_two_states_as_they_are_or_options_once_a_source(
    statediff: Call, files: Files
) -> None:
    files.write("b.json", after(status="closed", users=[]))
    options = "diff", "--before", "a.json", "--after", "b.json"
    assert statediff("diff", "a.json", "b.json").out == statediff(*options).out
    for wrong in ((), ("a.json",), ("a.json", "b.json", "a.json"), (*options[1:], "a.json")):
        said = statediff("diff", *wrong)
        assert (said.code, said.out) == (2, "")
        assert "expected two states: `statediff diff BEFORE AFTER`" in said.err


def test_a_schema_file_names_keys_and_types(statediff: Call, files: Files) -> None:
    files.write("s.yaml", "schema: notes\nversion: 1.0.0\nentities:\n  task: {table: ticket}\n")
    said = statediff(
        "diff", "--before", "a.json", "--after", "b.json", "--schema", "s.yaml", "--json"
    )
    assert [d["id"] for d in said.json["deltas"]] == ["task[7].status"]


@pytest.mark.usefixtures("files")
def test_lint_says_how_far_it_checked(statediff: Call) -> None:
    assert "shape only" in statediff("check", "c.yaml").out
    found = statediff("check", "c.yaml", "--before", "a.json", "--json").json
    assert found["contracts"][0]["checked"] == "state"
    assert found["errors"] == 0


def test_check_names_what_nobody_decides_without_the_calls(statediff: Call, files: Files) -> None:
    text = (files.folder / "c.yaml").read_text()
    files.write("calls.yaml", f"{text}\nactions:\n  allow: {{classes: [conditional-update]}}\n")
    said = statediff("check", "calls.yaml", "--before", "a.json")
    assert "never decided where nobody records the agent's calls: actions-allow" in said.out
    found = statediff("check", "c.yaml", "calls.yaml", "--before", "a.json", "--json").json
    assert [each["of_calls"] for each in found["contracts"]] == [[], ["actions-allow"]]
    judged = statediff("judge", "calls.yaml", "--before", "a.json", "--after", "b.json", "--json")
    open_ = [c["clause"] for c in judged.json["clauses"] if c["truth"] == "UNKNOWN"]
    assert open_ == ["actions-allow"]


@pytest.mark.slow
def test_lint_searches_folders_and_starts_each_sandbox_once(statediff: Call) -> None:
    said = statediff("check", str(CHECKOUT / "contracts"), "--installed-only", "--json")
    assert said.code == 0, said.err
    absent = missing_servers()
    for found in said.json["contracts"]:
        is_served = found["contract"].partition("/")[0] not in absent
        assert found["checked"] == ("state" if is_served else "shape")
        assert found["ok"]
    assert all(f"pip install {extra}" in said.err for extra in absent.values())


def test_lint_with_a_schema_alone_finds_unknown_types_only(statediff: Call, files: Files) -> None:
    contract = CHECKOUT / "contracts" / "shop" / "refund-returned-order" / "contract.yaml"
    schema = ("--schema", str(SHOP / "schema.yaml"))
    assert statediff("check", str(contract), *schema).code == 0
    text = contract.read_text(encoding="utf-8")
    files.write("x.yaml", text.replace("delete: customer", "delete: customr"))
    said = statediff("check", "x.yaml", *schema)
    assert said.code == 2
    assert "did you mean `customer`?" in said.out


def test_lint_lists_every_problem_of_every_contract(statediff: Call, files: Files) -> None:
    text = Path(files.folder, "c.yaml").read_text(encoding="utf-8")
    files.write("bad.yaml", text.replace("it.id", "it.idd").replace("status:", "statsu:"))
    said = statediff("check", "bad.yaml", "c.yaml", "--before", "a.json", "--json")
    assert said.code == 2
    first, second = said.json["contracts"]
    assert {11, 12} <= {p["line"] for p in first["problems"]}
    assert second["ok"]


@pytest.mark.parametrize("document", ["contract", "state", "judgement"])
def test_every_published_schema_is_a_schema(statediff: Call, document: str) -> None:
    made = statediff("schema", document).json
    jsonschema.Draft202012Validator.check_schema(made)
    assert (
        made["$id"]
        == {
            "contract": "urn:statediff:schema:contract:1",
            "state": "urn:statediff:schema:state-schema:1",
            "judgement": "urn:statediff:schema:judgement:1",
        }[document]
    )
    assert statediff("schema", document, "--json").json == made


@pytest.mark.slow
def test_the_published_schemas_accept_what_the_shop_ships(statediff: Call) -> None:
    yaml = YAML(typ="safe", pure=True)
    jsonschema.validate(
        yaml.load((SHOP / "schema.yaml").read_text(encoding="utf-8")),
        statediff("schema", "state").json,
    )
    for path in (CHECKOUT / "contracts").rglob("contract.yaml"):
        contract = yaml.load(path.read_text(encoding="utf-8"))
        jsonschema.validate(contract, statediff("schema", "contract").json)


def test_doctor_finds_everything_here(statediff: Call) -> None:
    said = statediff("doctor", "--json")
    assert said.code == 0, said.out
    assert {c["name"] for c in said.json["checks"]} >= {"python", "sqlite", "loopback", "packs"}
    assert statediff("doctor").out.split()[:2] == ["ok", "python"]


def test_doctor_names_each_extra_and_how_to_get_one_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = importlib.metadata.version

    def without_pyrage(name: str) -> str:
        if name == "pyrage":
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(importlib.metadata, "version", without_pyrage)
    assert doctor(as_json=True) == 0
    listed = json.loads(capsys.readouterr().out)["checks"]
    checks = {check["name"]: check for check in listed}
    extras = ("agents", "age", "cluster", "docker", "otel")
    assert [checks[f"extra {extra}"]["ok"] for extra in extras] == [True, False, True, True, True]
    assert checks["extra age"]["optional"]
    assert checks["extra age"]["todo"].endswith("pip install statediff[age]")
    assert "mcp 2" in checks["extra agents"]["found"]


def test_doctor_says_what_to_do_where_nothing_may_be_written(statediff: Call) -> None:
    said = statediff("doctor", "--json", cwd="/proc")
    assert said.code == 4
    [missing] = [c for c in said.json["checks"] if not (c["ok"] or c["optional"])]
    assert missing["name"] == "current folder"
    assert missing["todo"]


def test_a_sandbox_is_up_proven_drifts_is_reset_and_goes_down(
    statediff: Call, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [*PROGRAM, "sandbox", "up", "shop", "--json"], cwd=tmp_path, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        assert statediff("sandbox", "up", "shop").code == 2
        assert statediff("sandbox", "verify", "shop").code == 0
        connection = sqlite3.connect(
            facts["environment"]["STATEDIFF_SHOP_DB_URL"].removeprefix("sqlite:///")
        )
        connection.execute("DELETE FROM refunds")
        connection.commit()
        connection.close()
        drifted = statediff("sandbox", "verify", "shop")
        assert drifted.code == 4
        assert "table refunds" in drifted.out
        assert statediff("sandbox", "reset", "shop", "--json").json["ok"] is True
        assert statediff("sandbox", "down", "shop").code == 0
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, b"")
    assert not (tmp_path / ".statediff" / "sandboxes" / "shop").exists()


def test_a_killed_sandbox_is_not_up_though_its_number_is_somebody_elses(
    statediff: Call, tmp_path: Path
) -> None:
    home = tmp_path / ".statediff" / "sandboxes" / "shop"
    with subprocess.Popen(
        [*PROGRAM, "sandbox", "up", "shop", "--json"], cwd=tmp_path, env=environment(),
        stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        process.kill()
    home.mkdir(parents=True, exist_ok=True)
    (home / "up.json").write_text(json.dumps({**facts, "pid": os.getpid()}))
    said = statediff("sandbox", "verify", "shop")
    assert said.code == 2
    assert "shop is not up here" in said.err


def test_a_sandbox_goes_at_ctrl_c_and_after_its_seconds(tmp_path: Path) -> None:
    for extra, code in (((), 130), (("--seconds", "0.2"), 0)):
        with subprocess.Popen(
            [*PROGRAM, "sandbox", "up", "shop", *extra], cwd=tmp_path, env=environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"export STATEDIFF_")
            if not extra:
                time.sleep(0.1)
                process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=20)
        assert process.returncode == code, err
        assert not (tmp_path / ".statediff" / "sandboxes" / "shop").exists()


def test_a_detached_sandbox_stays_until_down_and_then_nothing_of_it_is_left(
    statediff: Call, tmp_path: Path
) -> None:
    facts = statediff("sandbox", "up", "shop", "--detach", "--seconds", "60", "--json", env={}).json
    file = Path(facts["urls"]["shop-db"].removeprefix("sqlite:///"))
    assert facts["variant"] == "embedded"
    assert file.exists()
    assert statediff("sandbox", "verify", "shop").code == 0
    assert statediff("sandbox", "down", "shop").code == 0
    assert not (tmp_path / ".statediff" / "sandboxes" / "shop").exists()


def test_an_unknown_variant_or_image_is_told_with_those_there_are(statediff: Call) -> None:
    for command in (
        ("sandbox", "up", "shop", "--variant", "oracle"),
        ("sandbox", "up", "shop", "--variant", "oracle", "--detach"),
        ("run", "shop/refund-returned-order", "--agent-cmd", "true", "--sandbox", "oracle"),
    ):
        said = statediff(*command)
        assert said.code == 2
        assert "shop has no variant 'oracle'; there are: embedded" in said.err
    assert "no image 'oracle'; there are: git" in statediff("sandbox", "build", "oracle").err


def test_without_an_engine_doctor_and_build_say_how_to_get_one(
    statediff: Call, tmp_path: Path
) -> None:
    nowhere = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    doctor = statediff("doctor", "--json", env=nowhere)
    assert doctor.code == 0
    absent = [check for check in doctor.json["checks"] if not check["ok"]]
    assert {check["name"] for check in absent[:-1]} == set(missing_servers())
    missing = absent[-1]
    assert (missing["name"], missing["optional"]) == ("docker", True)
    assert "no Docker engine answers" in missing["found"]
    assert "engine.sh up" in missing["todo"]
    said = statediff("sandbox", "build", "git", env=nowhere)
    assert said.code == 4
    assert "no Docker engine answers" in said.err
    assert "statediff doctor" in said.err
    far = {"DOCKER_HOST": "tcp://192.0.2.1:2375"}
    assert "engine on this machine" in statediff("sandbox", "build", "git", env=far).err


@pytest.mark.usefixtures("files")
def test_lint_remarks_say_what_to_write_and_only_errors_end_with_2(
    statediff: Call, files: Files
) -> None:
    text = Path(files.folder, "c.yaml").read_text(encoding="utf-8")
    files.write("warned.yaml", text.replace("{ticket: 7}", "{ticket: 7, spare: 1}"))
    said = statediff("check", "warned.yaml", "--before", "a.json")
    assert said.code == 0
    assert "warned.yaml:5:" in said.out
    assert "warning unused-input: nothing uses input `spare`" in said.out
    assert "    instead: use it or remove it" in said.out
    counted = statediff("check", "warned.yaml", "--before", "a.json", "--json").json
    assert (counted["errors"], counted["warnings"], counted["advice"]) == (0, 1, 0)
    assert counted["contracts"][0]["problems"][0]["severity"] == "warning"


@pytest.mark.usefixtures("files")
def test_fmt_says_what_would_change_and_writes_only_when_asked(
    statediff: Call, files: Files
) -> None:
    text = Path(files.folder, "c.yaml").read_text(encoding="utf-8")
    untidy = Path(files.write("u.yaml", text.replace("owner: support", "owner:   'support'  # us")))
    said = statediff("fmt", "u.yaml", "c.yaml", "--check", "--json")
    assert said.code == 2
    assert [f["result"] for f in said.json["files"]] == ["changed", "same"]
    assert "'support'" in untidy.read_text(encoding="utf-8")
    assert statediff("fmt", "u.yaml").code == 0
    assert "owner: support  # us\n" in untidy.read_text(encoding="utf-8")
    assert statediff("fmt", "u.yaml", "--check").code == 0
    files.write("no.yaml", "contract: [")
    assert statediff("fmt", "no.yaml").code == 2


@pytest.mark.usefixtures("files")
def test_explain_needs_to_know_what_names_mean(statediff: Call, files: Files) -> None:
    assert (
        "give --before NAME=STATE, or --schema FILE"
        in statediff("check", "--explain", "c.yaml").err
    )
    said = statediff("check", "--explain", "c.yaml", "--before", "a.json")
    assert said.code == 0
    assert "No ticket or user may be deleted. [nothing-deleted]" in said.out
    page = statediff(
        "check", "--explain", "c.yaml", "--before", "a.json", "--format", "html", "--out", "e.html"
    )
    assert (page.code, page.out) == (0, "")
    assert Path(files.folder, "e.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    plain = statediff("check", "--explain", "c.yaml", "--before", "a.json", "--json").json
    assert [c["id"] for c in plain["clauses"]] == ["nothing-deleted", "frame", "closed"]


LATE = """
import os
import sys
from statediff.cli.main import run
code = run(sys.argv[1:])
late = "cryptography networkx pandas statediff.agents.otel statediff.reads.gate"
slow = {*late.split(), "statediff.suite.campaign"} & set(sys.modules)
import pandas
import pyarrow
threads = os.environ.get("OPENBLAS_NUM_THREADS")
print(code, sorted(slow), threads, pyarrow.table({"a": [1]}).to_pandas().shape)
"""


def test_judging_imports_nothing_slow_that_it_needs_not(files: Files) -> None:
    """Each of them takes longer than all of a small judgement; pandas is there if asked for."""
    pytest.importorskip("pandas")
    said = subprocess.run(
        [sys.executable, "-c", LATE, *JUDGE],
        capture_output=True,
        text=True,
        cwd=files.folder,
        env={**environment(), "PYTHONPATH": str(CHECKOUT), "OPENBLAS_NUM_THREADS": "7"},
        check=False,
    )
    assert said.stdout.endswith("\n0 [] 7 (1, 1)\n"), said.stderr
