"""One contract over many inputs: rows become contracts of their own, judged, run and replayed."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from statediff import api
from statediff.contract.authoring.cases import Case, case_texts
from statediff.contract.file import parse_contract
from statediff.contract.yaml.reader import read_document
from statediff.errors import ContractError, InputError, StatediffError, UsageError
from statediff.workspace.cases import Chosen, cases_of
from tests.cli.conftest import CONTRACT, Call, Files, after

TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cn"]) | st.sampled_from("\0\"'\\#:{}[]&*!|>%@`\n\t"),
    max_size=12,
)
NUMBERS = st.integers(-(10**20), 10**20) | st.decimals(
    allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
LAYOUTS = (
    "contract: a/b  # who\nversion: 1.0.0\n# about inputs\ninputs: {one: 1}\n# next\nnoop: true\n",
    "inputs:\n  # inside\n  one:\n    - 2\n\n# last words\ncontract: 'a/b'\ncases: rows.jsonl\n",
    "cases:\n  rows.jsonl\ncontract:\n  a/b\ninputs:\n    one: >\n      a\n      b\n\nowner: x",
)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(value=VALUES)
def test_a_case_is_the_contract_with_its_inputs_and_all_else_stays(layout: str, value: Any) -> None:
    document = read_document(layout.encode(), "c.yaml")
    # The second case is the one whose text is not read again by `case_texts`.
    cases = (Case("first", {"one": 0}), Case("second", {"one": value}))
    try:
        *_, (_, data) = case_texts(document, cases)
    except InputError:  # a key that no one can read, or too many digits
        event("refused")
        return
    read = read_document(data, "c.yaml")
    others = {k: v for k, v in document.value.items() if k != "cases"}
    assert read.value == {**others, "contract": "a/b/second", "inputs": {"one": value}}
    assert data.decode().count("\n") == layout.count("\n")


def test_a_contract_without_lines_of_its_own_for_inputs_is_refused() -> None:
    document = read_document(b"{contract: a/b, inputs: {one: 1}}", "c.yaml")
    with pytest.raises(ContractError, match="at the margin"):
        list(case_texts(document, [Case("x", {"one": 2})]))


def test_a_case_that_no_contract_can_hold_is_refused_by_its_name() -> None:
    document = read_document(LAYOUTS[0].encode(), "c.yaml")
    for value in (
        {"\x1f": 1},
        [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]],
        "x" * 300_000,
    ):
        with pytest.raises(InputError, match="case odd"):
            list(case_texts(document, [Case("odd", {"one": value})]))


MANY = CONTRACT.replace("{ticket: 7}", "{ticket: 7, rate: 1.5, loud: true, who: Ada, case: 3}")


def chosen(tmp_path: Path, name: str, text: str, *given: str) -> dict[str, Any]:
    rows = tmp_path / name
    rows.write_text(text, encoding="utf-8")
    file = parse_contract(MANY.encode(), "c.yaml")
    found = cases_of(tmp_path / "c.yaml", file, Chosen(file=rows, given=given))
    return {case.name: dict(case.inputs) for case in found}


def test_rows_of_csv_are_of_the_kinds_of_the_contract(tmp_path: Path) -> None:
    text = 'case_id,ticket,rate,loud,who\nA-1,8,2.50,FALSE,"0012, x"\nb,-3,4,true,\n'
    assert chosen(tmp_path, "rows.csv", text) == {
        "a-1": {"ticket": 8, "rate": Decimal("2.50"), "loud": False, "who": "0012, x"},
        "b": {"ticket": -3, "rate": 4, "loud": True, "who": ""},
    }


def test_rows_without_a_name_are_numbered_and_given_inputs_replace_theirs(tmp_path: Path) -> None:
    rows = chosen(tmp_path, "rows.jsonl", '{"ticket": 8}\n\n{"who": "é"}\n', "ticket=9", "who=x=y")
    assert rows == {"1": {"ticket": 9, "who": "x=y"}, "2": {"who": "x=y", "ticket": 9}}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("r.jsonl", '{"tickt": 8}', "no input `tickt`; did you mean `ticket`?"),
        ("r.jsonl", '{"ticket": "8"}', "line 1: input `ticket` is a number in the contract"),
        ("r.jsonl", '{"ticket": true}', "and a true or false here"),
        ("r.jsonl", '{"ticket": 1}\n{"ticket": NaN}', "line 2"),
        ("r.jsonl", '{"ticket": 1, "ticket": 2}', "line 1"),
        ("r.jsonl", "[1]", "expected an object"),
        ("r.jsonl", "\n", "found none"),
        ("r.jsonl", '{"case_id": "A"}\n{"case_id": "a"}', "there already (line 1)"),
        ("r.jsonl", '{"case_id": "../x"}', "a case's name"),
        ("r.csv", "ticket\nx\n", "line 2: input `ticket` is a number"),
        ("r.csv", "ticket,who\n1\n", "line 2: expected 2 values"),
        ("r.csv", "loud\nyes\n", "true or false"),
        ("missing.txt", "", "found none"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_their_line(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    with pytest.raises(StatediffError) as caught:
        chosen(tmp_path, name, text)
    assert words in str(caught.value)


def test_judge_replays_a_case_without_the_file_that_it_came_from(
    statediff: Call, files: Files
) -> None:
    files.write("c.yaml", CONTRACT + "cases: rows.jsonl\n")
    rows = files.write("rows.jsonl", '{"case": "seven", "ticket": 7}\n{"case": "8", "ticket": 8}\n')
    files.write("b.json", after(other="closed"))
    judge = ("judge", "c.yaml", "--before", "a.json", "--after", "b.json", "--json")
    assert statediff(*judge, "--case", "8", "--out", "eight").json["verdict"] == "MATCH"
    assert statediff(*judge, "--case", "seven").json["verdict"] == "DIVERGE"
    assert statediff(*judge, "--input", "ticket=8", "--case", "s*").json["verdict"] == "MATCH"
    assert statediff(*judge).json["verdict"] == "DIVERGE"  # the contract's own inputs
    assert "name one with --case: seven, 8" in statediff(*judge, "--case", "*").out
    assert "the first are seven, 8" in statediff(*judge, "--case", "9").out
    Path(rows).unlink()
    assert statediff("replay", "eight").code == 0


def test_lint_reads_the_rows(statediff: Call, files: Files) -> None:
    files.write("c.yaml", CONTRACT + "cases: rows.jsonl\n")
    said = statediff("check", "c.yaml")
    assert (said.code, "rows.jsonl" in said.out) == (2, True)
    files.write("rows.jsonl", '{"ticket": 8}\n')
    assert statediff("check", "c.yaml").code == 0


AGENT = """\
def closes(trial):
    return {"refunded_cents": trial.inputs["order"]}
"""


def test_a_run_tries_every_case_and_names_its_trials(
    statediff: Call, files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files.write("agent_of_cases.py", AGENT)
    monkeypatch.syspath_prepend(str(files.folder))
    rows = [{"case": name, "order": 1009} for name in ("one", "two")]
    files.write("rows.jsonl", "\n".join(map(json.dumps, rows)))
    run = ["run", "shop/refund-returned-order", "--agent", "agent_of_cases:closes", "--json"]
    first = statediff(*run, "--cases", "rows.jsonl", "--input", "cents=1")
    assert [each["trial"] for each in first.lines[:2]] == [
        "shop-refund-returned-order-one-1",
        "shop-refund-returned-order-two-1",
    ]
    (folder,) = (tmp_path / "runs").glob("run-*")
    text = (folder / "trials" / first.lines[1]["trial"] / "bundle" / "contract.yaml").read_text()
    assert 'inputs: {"order": 1009, "cents": 1}' in text
    again = statediff("retry", str(folder), "--contract", "*/two", "--json")
    assert [each["trial"] for each in again.lines[:1]] == ["shop-refund-returned-order-two-1"]
    files.write("rows.jsonl", json.dumps(rows[0]))
    assert statediff("retry", str(folder), "--ended", "DIVERGE").code == 2  # a case is gone


def test_python_runs_every_case_and_loads_one(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files.folder)
    rows = "\n".join(json.dumps({"case": name, "order": 1009}) for name in ("one", "two"))
    files.write("rows.jsonl", rows)
    seen: list[Any] = []

    def agent(trial: Any) -> None:
        seen.append(trial.inputs["order"])

    run = ("shop/refund-returned-order", agent)
    judged = api.run(*run, cases="rows.jsonl", inputs={"cents": 1}, trials=2)
    refund = "shop/refund-returned-order"
    assert [each.contract for each in judged] == [*[f"{refund}/one"] * 2, *[f"{refund}/two"] * 2]
    assert seen == [1009] * 4
    texts = [each.bundle.files["contract.yaml"].decode() for each in judged]
    assert all('inputs: {"order": 1009, "cents": 1}' in text for text in texts)
    [only] = api.run(*run, cases="rows.jsonl", case="t*")
    assert only.contract == f"{refund}/two"
    for wrong in ({"cents": float("nan")}, {"cents": "1"}, {"cent": 1}):
        with pytest.raises(InputError):
            api.load_contract(refund, inputs=wrong)
    loaded = api.load_contract(refund, cases="rows.jsonl", case="one")
    assert loaded.content.contract == f"{refund}/one"
    with pytest.raises(UsageError, match="give its path"):
        api.run(loaded, agent, case="one")
