"""`judge`, `show`, `replay`: from two files to a verdict, a bundle and back."""

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import jsonschema
import pytest

from tests.cli.conftest import BEFORE, CONTRACT, JUDGE, Call, Files, after

BUNDLE_FILES = 13


@pytest.mark.usefixtures("files")
def test_a_run_that_did_what_was_asked_matches_with_exit_code_0(statediff: Call) -> None:
    said = statediff(*JUDGE)
    assert said.code == 0
    assert said.out.startswith("MATCH  notes/close-ticket 1.0.0")
    assert "All 3 clauses hold." in said.out
    assert "bundle: .statediff/bundles/notes-close-ticket-" in said.out


def test_a_collateral_change_diverges_with_exit_code_1(statediff: Call, files: Files) -> None:
    files.write("b.json", after(status="closed", other="closed"))
    said = statediff(*JUDGE, "--json")
    assert said.code == 1
    found = said.json
    assert found["verdict"] == "DIVERGE"
    failed = [f for f in found["findings"] if f["truth"] == "FAILS"]
    assert [(f["code"], f["clause"], f["stage"]) for f in failed] == [
        ("unexplained-change", "frame", "frame")
    ]
    assert failed[0]["deltas"] == ["ticket[8].status"]
    assert found["metrics"] == {
        "precision": 0.5, "recall": 1, "forbidden_effect_rate": 0.5,
    }  # fmt: skip


def test_json_is_one_object_of_the_published_schema_and_nothing_else(
    statediff: Call, files: Files
) -> None:
    files.write("b.json", after(status="closed", other="closed", users=[]))
    said = statediff(*JUDGE, "--json")
    assert said.err == ""
    assert said.out.count("\n") == 1
    jsonschema.validate(said.json, statediff("schema", "judgement").json)
    [deleted] = [d for d in said.json["deltas"] if d["op"] == "delete"]
    assert deleted["key"] == 1
    assert deleted["before"] == {"id": 1, "name": "Ada"}
    assert deleted["after"] == {"absent": True}


def test_a_reward_is_written_for_a_decided_run_only(statediff: Call, files: Files) -> None:
    reward = files.folder / "reward.json"
    assert statediff(*JUDGE, "--reward", str(reward)).code == 0
    found = json.loads(reward.read_text())
    assert found.pop("reward") == 1.0
    assert set(found.values()) == {1.0}
    files.write("b.json", after(status="closed", other="closed"))
    assert statediff(*JUDGE, "--reward", str(reward)).code == 1
    found = json.loads(reward.read_text())
    assert (found["reward"], found["frame"], found["require"]) == (0.0, 0.0, 1.0)
    said = statediff(*JUDGE, "--reward", str(reward.parent / "no" / "reward.json"))
    assert said.code == 4
    assert "--reward" in said.err
    assert "--out" not in said.err
    files.write("b.json", {"user": BEFORE["user"]})  # the run emptied the other table
    assert statediff(*JUDGE, "--reward", str(reward)).code == 1
    files.write("c.yaml", CONTRACT + "\nevidence: {tables: {history: required}}\n")
    files.write("b.json", after(status="closed"))
    assert statediff(*JUDGE, "--reward", str(reward)).code == 3
    assert not reward.exists()
    reward.write_text('{"reward": 1.0}')
    assert statediff("judge", "no.yaml", *JUDGE[2:], "--reward", str(reward)).code == 2
    assert not reward.exists()
    assert statediff(*JUDGE, "--reward", str(reward.parent)).code == 2


@pytest.mark.usefixtures("files")
def test_show_json_says_what_judge_json_said(statediff: Call) -> None:
    judged = statediff(*JUDGE, "--json")
    shown = statediff("show", judged.json["bundle"], "--json")
    assert (shown.code, shown.json) == (0, judged.json)


def test_a_replay_reproduces_the_verdict_and_returns_its_exit_code(
    statediff: Call, files: Files
) -> None:
    files.write("b.json", after(status="closed", other="closed"))
    folder = statediff(*JUDGE, "--json").json["bundle"]
    said = statediff("replay", folder)
    assert said.code == 1
    assert said.out.startswith("DIVERGE  reproduced")
    replayed = statediff("replay", folder, "--json").json
    assert (replayed["reproduced"], replayed["verdict"]) == (True, "DIVERGE")


def test_evidence_of_unknown_age_leaves_it_inconclusive_with_exit_code_3(
    statediff: Call, files: Files
) -> None:
    files.write("c.yaml", CONTRACT + "evidence:\n  tables: {max_age: 5s}\n")
    said = statediff(*JUDGE, "--json")
    assert said.code == 3
    assert said.json["verdict"] == "INCONCLUSIVE"


def test_answer_and_trace_are_judged_and_kept(statediff: Call, files: Files) -> None:
    claim = "answer:\n  schema: {closed: int}\n  claims:\n    - answer.closed == input.ticket\n"
    files.write("c.yaml", CONTRACT + claim)
    files.write("answer.json", {"closed": 8})
    files.write("trace.jsonl", '{"tool": "close", "arguments": {"id": 7}}\n')
    said = statediff(*JUDGE, "--answer", "answer.json", "--trace", "trace.jsonl", "--json")
    assert said.code == 1
    assert (said.json["task"], said.json["outcome"]) == ("DIVERGE", "MATCH")
    trace = json.loads(Path(files.folder, said.json["bundle"], "trace.json").read_bytes())
    assert [a["tool"] for a in trace["actions"]] == ["close"]


def test_a_trace_is_the_agents_word_unless_somebody_vouches_for_it(
    statediff: Call, files: Files
) -> None:
    files.write("c.yaml", CONTRACT + "actions:\n  allow: {classes: [read], tool: [close]}\n")
    files.write("trace.jsonl", '{"tool": "close"}\n')
    said = statediff(*JUDGE, "--trace", "trace.jsonl", "--json")
    assert (said.code, said.json["tool"]) == (3, "INCONCLUSIVE")
    said = statediff(*JUDGE, "--trace", "trace.jsonl", "--complete-trace", "--json")
    assert (said.code, said.json["tool"]) == (0, "MATCH")
    assert statediff("replay", said.json["bundle"]).code == 0
    files.write("trace.jsonl", '{"tool": "close"}\n{"tool": "drop"}\n')
    said = statediff(*JUDGE, "--trace", "trace.jsonl", "--json")
    assert (said.code, said.json["tool"]) == (1, "DIVERGE")
    assert "call-2" in statediff("show", said.json["bundle"]).out


def test_out_names_the_bundle_and_another_bundle_is_never_overwritten(
    statediff: Call, files: Files
) -> None:
    assert statediff(*JUDGE, "--out", "kept").code == 0
    assert statediff(*JUDGE, "--out", "kept").code == 0  # the same bundle again
    files.write("b.json", after(status="closed", other="closed"))
    said = statediff(*JUDGE, "--out", "kept")
    assert said.code == 2
    assert "nothing is overwritten" in said.err
    assert statediff("replay", "kept").code == 0


@pytest.mark.usefixtures("files")
def test_a_sqlite_file_is_a_state_too(statediff: Call, tmp_path: Path) -> None:
    for name, status in (("a.db", "open"), ("b.db", "closed")):
        database(tmp_path / name, status)
    said = statediff("judge", "c.yaml", "--before", "a.db", "--after", "b.db", "--json")
    assert said.code == 0, said.out
    assert said.json["deltas"][0]["evidence"] == ["before/db", "after/db"]


def database(path: Path, status: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE ticket(id INTEGER PRIMARY KEY, status TEXT);"
        "CREATE TABLE user(id INTEGER PRIMARY KEY, name TEXT);"
        f"INSERT INTO ticket VALUES (7, '{status}'), (8, 'open');"
    )
    connection.close()


@pytest.mark.usefixtures("files")
def test_several_sources_need_names_and_both_sides(statediff: Call) -> None:
    twice = statediff(*JUDGE, "--before", "b.json")
    assert twice.code == 2
    assert "NAME=PATH" in twice.err
    one_sided = statediff(*JUDGE, "--before", "more=b.json")
    assert one_sided.code == 2
    assert "both sides" in one_sided.err


@pytest.mark.usefixtures("files")
def test_plain_tables_may_come_from_standard_input(statediff: Call) -> None:
    said = statediff(
        "judge", "c.yaml", "--before", "-", "--after", "b.json",
        input=json.dumps(BEFORE).encode(),
    )  # fmt: skip
    assert said.code == 0, said.err


@pytest.mark.parametrize("number", range(3))
def test_the_same_files_give_the_same_bundle_byte_for_byte(
    statediff: Call, files: Files, tmp_path: Path, number: int
) -> None:
    worlds = (
        {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LANG": "C"},
        {"PYTHONHASHSEED": "2", "TZ": "America/St_Johns", "LANG": "de_DE.UTF-8"},
        {"PYTHONHASHSEED": "3", "TZ": "UTC", "LC_ALL": "POSIX"},
    )
    files.write("b.json", after(status="closed", other="closed"))
    first = tmp_path / "first"
    assert statediff(*JUDGE, "--out", str(first), env={"PYTHONHASHSEED": "0"}).code == 1
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("c.yaml", "a.json", "b.json"):
        shutil.copy(tmp_path / name, elsewhere)
    assert statediff(*JUDGE, "--out", "again", env=worlds[number], cwd=elsewhere).code == 1
    assert contents(first) == contents(elsewhere / "again")
    assert str(tmp_path).encode() not in b"".join(contents(first).values())


def contents(folder: Path) -> dict[str, bytes]:
    found = {
        name: (folder / name).read_bytes() for name in sorted(p.name for p in folder.iterdir())
    }
    assert len(found) == BUNDLE_FILES
    return found


# ---------------------------------------------------------------- damaged bundles


def test_a_torn_bundle_is_a_clear_error_and_exit_code_4(statediff: Call, files: Files) -> None:
    assert statediff(*JUDGE, "--out", "torn").code == 0
    Path(files.folder, "torn", "manifest.json").unlink()
    for command in ("show", "replay"):
        said = statediff(command, "torn")
        assert said.code == 4
        assert "torn: no bundle; its manifest.json is missing" in said.err


def test_a_changed_bundle_is_refused_even_with_matching_digests(
    statediff: Call, files: Files
) -> None:
    assert statediff(*JUDGE, "--out", "forged").code == 0
    folder = Path(files.folder, "forged")
    judgement = (folder / "judgement.json").read_bytes().replace(b'"MATCH"', b'"DIVERGE"')
    (folder / "judgement.json").write_bytes(judgement)
    assert statediff("replay", "forged").code == 4
    digest = json.loads((folder / "manifest.json").read_bytes())
    digest["files"]["judgement.json"] = hashlib.sha256(judgement).hexdigest()
    text = json.dumps(digest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    (folder / "manifest.json").write_bytes(text.encode())
    said = statediff("replay", "forged")
    assert said.code == 4
    assert "the bundle was changed" in said.err


@pytest.mark.parametrize(
    ("name", "garbage"),
    [
        ("judgement.json", b"{}"), ("judgement.json", b'{"verdict":7}'), ("trial.json", b"[]"),
        ("captures.json", b"null"), ("contract.yaml", b"\xff\xfe"), ("manifest.json", b"{]"),
        ("answer.json", b'{"answer":["map",[["a",["int","x"]]]]}'),
    ],
)  # fmt: skip
def test_garbage_in_a_bundle_is_a_clear_error_and_exit_code_4(
    statediff: Call, files: Files, name: str, garbage: bytes
) -> None:
    assert statediff(*JUDGE, "--out", "bad").code == 0
    folder = Path(files.folder, "bad")
    (folder / name).write_bytes(garbage)
    if name != "manifest.json":
        manifest = json.loads((folder / "manifest.json").read_bytes())
        manifest["files"][name] = hashlib.sha256(garbage).hexdigest()
        text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        (folder / "manifest.json").write_bytes(text.encode())
    if name != "trial.json":  # no decision reads it
        said = statediff("replay", "bad", "--json")
        assert said.code == 4
        assert said.json["error"]["kind"] == "bundle"
    if name != "contract.yaml":  # a report does not read the contract
        assert statediff("show", "bad").code == 4


@pytest.mark.usefixtures("files")
def test_what_is_no_bundle_is_a_usage_error(statediff: Call) -> None:
    assert statediff("show", "nowhere").code == 2
    assert statediff("replay", "c.yaml").code == 2


# ---------------------------------------------------------------- hostile values


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eevil\u2066\u200b\u0085[red]x[/red]\r\n\ud7ff"


def test_hostile_values_cannot_steer_the_terminal(statediff: Call, files: Files) -> None:
    users = [{"id": HOSTILE, "name": HOSTILE, HOSTILE: HOSTILE}]
    files.write("b.json", after(status="closed", users=users))
    for extra in ({}, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}):
        said = statediff(*JUDGE, env=extra)
        assert said.code == 1, said.err
        text = said.out.replace("\x1b[", "") if extra else said.out
        for character in "\x1b\x07\x85\u202e\u2066\u200b\r":
            assert character not in text
        assert "\x1b[2J" not in said.out
        assert "[red]x[/red]" in said.out.replace("\n", "")


def test_a_long_value_is_shown_in_part_and_kept_whole(statediff: Call, files: Files) -> None:
    files.write("b.json", after(status="closed", users=[{"id": 1, "name": "x" * 100_000}]))
    said = statediff(*JUDGE)
    assert said.code == 1
    assert len(said.out) < 10_000
    [delta] = [d for d in statediff(*JUDGE, "--json").json["deltas"] if d["type"] == "user"]
    assert delta["after"] == "x" * 100_000


@pytest.mark.usefixtures("files")
def test_no_color_means_no_escape_at_all(statediff: Call) -> None:
    coloured = statediff(*JUDGE, env={"FORCE_COLOR": "1", "TERM": "xterm"})
    assert "\x1b[" in coloured.out
    plain = statediff(*JUDGE, env={"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm"})
    assert "\x1b" not in plain.out


@pytest.mark.usefixtures("files")
def test_a_terminal_that_cannot_show_a_character_gets_its_escape(statediff: Call) -> None:
    said = statediff(*JUDGE, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert said.code == 0
    assert "\\u2714" in said.out


DURING = """contract: notes/close-ticket
version: 1.0.0
owner: support
intent: Close ticket 7, and let nobody else's ticket be closed meanwhile.
require:
  - id: closed
    update: ticket
    where: it.id == 7
    set: {status: closed}
forbid:
  - id: others-stay-open
    update: ticket
    where: it.id != 7
    during: run
"""


@pytest.mark.parametrize("kind", ["json", "db"])
def test_states_in_between_are_judged_where_a_clause_asks_for_them(
    statediff: Call, files: Files, kind: str
) -> None:
    def state(name: str, seven: str, eight: str) -> str:
        rows = [(7, seven), (8, eight)]
        if kind == "json":
            files.write(name, json.dumps({"ticket": [{"id": i, "status": s} for i, s in rows]}))
            return name
        with sqlite3.connect(files.folder / name) as connection:
            connection.execute("CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT)")
            connection.executemany("INSERT INTO ticket VALUES (?, ?)", rows)
        connection.close()
        return name

    files.write("during.yaml", DURING)
    ends = (
        "judge", "during.yaml", "--before", state("s0", "open", "open"),
        "--after", state("s9", "closed", "open"),
    )  # fmt: skip
    wrong, right = state("s1", "open", "closed"), state("s2", "open", "open")
    assert statediff(*ends).code == 3
    assert statediff(*ends, "--during", right).code == 0
    assert statediff(*ends, "--during", "s9").code == 0
    said = statediff(*ends, "--during", right, "--during", wrong, "--json")
    assert (said.code, said.json["verdict"]) == (1, "DIVERGE")
    source = "tables" if kind == "json" else "db"
    [failed] = [f for f in said.json["findings"] if f["truth"] == "FAILS"]
    assert failed["sentence"].startswith(f"in transaction 2 of {source}: ticket 8 status")
    assert [d["transaction"] for d in said.json["during"]] == [f"{source} 2"]
    jsonschema.validate(said.json, statediff("schema", "judgement").json)
    assert statediff("replay", said.json["bundle"]).code == 1
    shown = statediff("show", said.json["bundle"]).out
    assert "in transaction 2 of" in shown
    assert "3 transactions" in shown


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nothing.json", "expected a state, found nothing"),
        ("other=a.json", "--during gives a state of other"),
        ("tables=c.yaml", "c.yaml"),
        ("tables=.", "expected JSON tables in a file"),
        ("tables=-", "expected JSON tables in a file"),
    ],
)
def test_a_state_in_between_that_cannot_be_one_is_told(
    statediff: Call, given: str, said: str
) -> None:
    found = statediff(*JUDGE, "--during", given)
    assert found.code == 2
    assert said in found.err
    assert "Traceback" not in found.err


def _cases(files: Files) -> Path:
    """Two cases, of which the second closed another ticket too, and a third without a state."""
    rows = [{"case": name, "ticket": 7} for name in ("right", "wrong", "gone")]
    (files.folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files.write("right.json", after(status="closed"))
    files.write("wrong.json", after(status="closed", other="closed"))
    return files.folder / "cases.jsonl"


BY_CASE = (*JUDGE[:-1], "{case}.json", "--cases", "cases.jsonl")


def test_the_states_of_every_case_are_judged_by_one_command(statediff: Call, files: Files) -> None:
    _cases(files)
    said = statediff(*BY_CASE, "--out", "kept")
    assert said.code == 1
    assert [" ".join(line.split()[:2]) for line in said.out.splitlines()] == [
        "right MATCH", "wrong DIVERGE", "gone fault", "3 cases:",
    ]  # fmt: skip
    assert "gone.json: expected a state, found nothing" in said.out
    assert said.out.splitlines()[-1] == "3 cases: 1 MATCH, 1 DIVERGE, 1 fault"
    assert statediff("replay", "kept/right").code == 0
    assert statediff("replay", "kept/wrong").code == 1


def test_a_line_a_case_and_their_sum_are_json(statediff: Call, files: Files) -> None:
    _cases(files)
    found = [json.loads(line) for line in statediff(*BY_CASE, "--json").out.splitlines()]
    assert [(each.get("case"), each.get("verdict")) for each in found] == [
        ("right", "MATCH"), ("wrong", "DIVERGE"), ("gone", None), (None, None),
    ]  # fmt: skip
    assert found[-1]["summary"] == {
        "scheduled": 3, "match": 1, "diverge": 1, "inconclusive": 0, "fault": 1,
    }  # fmt: skip


def test_a_case_that_is_no_run_is_no_pass(statediff: Call, files: Files) -> None:
    _cases(files)
    assert statediff(*BY_CASE, "--case", "gone").code == 4
    assert statediff(*BY_CASE, "--case", "right", "--case", "gone").code == 4
    assert statediff(*BY_CASE, "--case", "right").code == 0


def test_a_reward_of_each_case_needs_a_name_of_its_own(statediff: Call, files: Files) -> None:
    _cases(files)
    said = statediff(*BY_CASE, "--reward", "reward.json")
    assert (said.code, "{case}" in said.err) == (2, True)
    assert statediff(*BY_CASE, "--reward", "{case}.reward.json").code == 1
    assert json.loads((files.folder / "right.reward.json").read_text())["reward"] == 1.0
    assert json.loads((files.folder / "wrong.reward.json").read_text())["reward"] == 0.0


@pytest.mark.usefixtures("files")
def test_a_place_for_a_case_needs_cases(statediff: Call) -> None:
    said = statediff(*JUDGE[:-1], "{case}.json")
    assert (said.code, "has no cases, see --cases" in said.err) == (2, True)


def test_the_contract_of_a_bundle_is_explained_by_the_bundle_alone(
    statediff: Call, files: Files
) -> None:
    assert statediff(*JUDGE, "--out", "kept/bundle").code == 0
    for name in ("a.json", "b.json", "contract.yaml"):
        Path(files.folder, name).unlink(missing_ok=True)
    for named in ("kept/bundle", "kept"):
        said = statediff("check", "--explain", named)
        assert (said.code, said.err) == (0, "")
        assert "REQUIRED" in said.out
    Path(files.folder, "kept/bundle/schema.json").write_text("{}")
    assert statediff("check", "--explain", "kept").code == 4
