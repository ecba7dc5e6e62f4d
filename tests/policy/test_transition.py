"""`transition`: exactly the net, canonical deltas of a recorded reference, and nothing else."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from statediff.errors import BundleError, ContractError
from statediff.evaluate import ContractFile, evaluate, load_contract, parse_contract, replay
from statediff.evidence.package import Bundle, load, save
from statediff.model.values import Digested
from tests.judging import (
    CUT,
    DIVERGE,
    FAILS,
    HIDDEN,
    HOLDS,
    INCONCLUSIVE,
    MATCH,
    UNKNOWN,
    capture,
    contract,
    document,
    finding,
    item,
    part,
    run,
    state,
    truths,
    user,
)

NOTHING: dict[str, Any] = {}
BODY = """
transition:
  because: imported from a recorded run
  changes:
    - {update: item, key: 1, from: {n: 1}, set: {n: 2, t: b}}
    - {delete: user, key: 2}
    - {create: item, key: 7, set: {n: 3, owner: 1}}
"""
BEFORE = {"item": [item(1)], "user": [user(1), user(2)]}
AFTER: dict[str, Any] = {
    "item": [item(1, 2, "b"), {"id": 7, "n": 3, "owner": 1}],
    "user": [user(1)],
}


def trial(body: str, before: Any, after: Any, **more: Any) -> Any:
    found = run(body, before, after, **more)
    assert document(replay(found.bundle)) == document(found.judgement)
    return found.judgement


def with_items(*items: Any) -> dict[str, Any]:
    return {**AFTER, "item": list(items)}


def test_exactly_the_recorded_changes_hold_and_count_as_required() -> None:
    judgement = trial(BODY, BEFORE, AFTER)
    assert judgement.verdict is MATCH
    assert (judgement.metrics.precision, judgement.metrics.recall) == (1, 1)
    assert dict(judgement.explained_by)["item[1].n"] == ("transition",)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (BEFORE, BEFORE, "missing: update item 1 n"),
        (BEFORE, with_items(item(1, 2, "b")), "missing: create item 7"),
        (BEFORE, {**AFTER, "user": []}, "not recorded: user 1 deleted"),
        (BEFORE, with_items(item(1, 3, "b"), AFTER["item"][1]), "missing: update item 1 n"),
        (BEFORE, with_items(item(1, 2, "b", owner=1), AFTER["item"][1]), "not recorded: item 1 ow"),
        (BEFORE, with_items(item(1, 2, "b"), {"id": 8, "n": 3, "owner": 1}), "recorded: item 8 cr"),
        (BEFORE, with_items(item(1, 2, "b"), {"id": 7, "n": 3}), "missing: create item 7"),
        (BEFORE, with_items(item(1, 2, "b"), item(7, 3, owner=1)), "missing: create item 7"),
        ({**BEFORE, "item": [item(1, 5)]}, AFTER, "missing: update item 1 n"),
        (BEFORE, {**AFTER, "doc": [{"id": 1, "kind": "x"}]}, "not recorded: doc 1 created"),
    ],
)  # fmt: skip
def test_anything_else_differs_and_says_how(before: Any, after: Any, said: str) -> None:
    judgement = trial(BODY, before, after)
    assert judgement.verdict is DIVERGE
    found = finding(judgement, "transition")
    assert found.code == "transition-differs"
    assert said in found.sentence


def test_what_an_allow_clause_explains_still_is_not_recorded() -> None:
    body = BODY + "allow: [{create: doc}]\n"
    judgement = trial(body, BEFORE, {**AFTER, "doc": [{"id": 1, "kind": "x"}]})
    assert truths(judgement) == {"frame": HOLDS, "transition": FAILS}


@pytest.mark.parametrize(
    ("after", "coverage", "truth"),
    [
        (with_items(item(1, HIDDEN, "b"), AFTER["item"][1]), {}, UNKNOWN),
        (with_items(item(1, 2, "b"), {"id": 7, "n": HIDDEN, "owner": 1}), {}, UNKNOWN),
        (with_items(item(1, 2, "b"), {"id": 7, "n": HIDDEN, "owner": 2}), {}, FAILS),
        (AFTER, {"doc": CUT}, UNKNOWN),
        (with_items(item(1, 2, "b")), {"item": CUT}, UNKNOWN),
        (with_items(item(1, 2, "c")), {"item": CUT}, FAILS),
        ({**AFTER, "user": [user(1), user(3)]}, {"item": CUT}, FAILS),
        # Only what may be the missing one keeps it open: of its type, its key and its field.
        (with_items(item(1, 2, "b")), {"doc": CUT}, FAILS),
        (with_items(item(1, 1, HIDDEN), AFTER["item"][1]), {}, FAILS),
        (with_items(item(1, 2, HIDDEN), AFTER["item"][1]), {}, UNKNOWN),
    ],
)  # fmt: skip
def test_what_was_not_seen_decides_nothing(after: Any, coverage: Any, truth: Any) -> None:
    assert truths(trial(BODY, BEFORE, state(after, coverage)))["transition"] is truth


NAMED = """
transition:
  changes:
    - {create: user, key: {new: owner}, set: {name: Ada, role: user}}
    - {create: item, key: {new: first}, set: {n: 1, owner: {new: owner}}}
    - {create: item, key: {new: second}, set: {n: 1}}
    - {create: grant, key: [{new: owner}, {new: first}]}
"""


@pytest.mark.parametrize(
    ("owner", "first", "second", "granted", "truth"),
    [
        (5, 1, 2, (5, 1), HOLDS),
        (9, 2, 1, (9, 2), HOLDS),
        (5, 1, 2, (5, 2), FAILS),
        (5, 1, 2, (6, 1), FAILS),
    ],
)
def test_new_keys_may_be_named_and_are_renamed_consistently(
    owner: int, first: int, second: int, granted: Any, truth: Any
) -> None:
    after = {
        "user": [user(owner)],
        "item": [{"id": first, "n": 1, "owner": owner}, {"id": second, "n": 1}],
        "grant": [{"user": granted[0], "item": granted[1]}],
    }
    assert truths(trial(NAMED, NOTHING, after))["transition"] is truth


GRANTS = """
transition:
  changes:
    - {create: grant, key: [1, {new: b}]}
    - {create: grant, key: [2, {new: b}]}
    - {create: item, key: {new: c}, set: {n: 1}}
"""


@pytest.mark.parametrize(
    ("granted", "truth", "said"),
    [
        ([(1, 5), (2, 5)], HOLDS, "exactly the 3 recorded changes"),
        ([(1, 5), (2, 6)], FAILS,  # one name is one key
         "no naming of the new entities makes the changes the recorded ones"),
        ([(1, 5), (3, 5)], FAILS,
         "missing: link grant 2, new b; not recorded: grant (3, 5) linked"),
        ([(3, 5), (4, 5)], FAILS,
         "missing: link grant 1, new b; not recorded: grant (3, 5) linked; and 2 more"),
    ],
)  # fmt: skip
def test_a_key_may_be_named_in_part(granted: list[Any], truth: Any, said: str) -> None:
    after = {"grant": [{"user": u, "item": i} for u, i in granted], "item": [{"id": 9, "n": 1}]}
    found = finding(trial(GRANTS, NOTHING, after), "transition")
    assert (found.truth, found.sentence) == (truth, said)


def test_what_was_found_of_it_is_what_is_known_to_be_it() -> None:
    after = with_items(item(1, 2, "b"), {"id": 7, "n": HIDDEN, "owner": 1})
    judgement = trial(BODY, BEFORE, after)
    assert truths(judgement)["transition"] is UNKNOWN
    assert judgement.metrics.recall == Fraction(3, 4)


@pytest.mark.parametrize(("text", "truth", "recall"), [("long", UNKNOWN, 1), ("other", FAILS, 0)])
def test_a_text_of_which_only_the_digest_was_kept_is_told_apart(
    text: str, truth: Any, recall: int
) -> None:
    body = "transition: {changes: [{create: item, key: 1, set: {n: 1, t: long}}]}\n"
    after = {"item": [{"id": 1, "n": 1, "t": Digested.of(text)}]}
    judgement = trial(body, NOTHING, after)
    assert (truths(judgement)["transition"], judgement.metrics.recall) == (truth, recall)


def test_one_entity_is_never_two_names() -> None:
    body = (
        "transition:\n  changes:\n    - {create: item, key: {new: a}, set: {n: 1}}\n"
        "    - {create: item, key: {new: b}, set: {n: 1}}\n"
    )
    one, two = {"id": 1, "n": 1}, {"id": 2, "n": 1}
    assert trial(body, NOTHING, {"item": [one, two]}).verdict is MATCH
    assert trial(body, NOTHING, {"item": [one]}).verdict is DIVERGE
    assert trial(body, NOTHING, {"item": [one, two, {"id": 3, "n": 1}]}).verdict is DIVERGE


def test_more_namings_than_can_be_tried_are_unknown_never_a_guess() -> None:
    changes = "".join(
        f"    - {{create: item, key: {{new: a{n}}}, set: {{n: 1}}}}\n" for n in range(9)
    )
    changes += "    - {create: grant, key: [{new: a8}, {new: a7}]}\n"
    after = {
        "item": [{"id": key, "n": 1} for key in range(9)],
        "grant": [{"user": 0, "item": 1}],
    }
    judgement = trial("transition:\n  changes:\n" + changes, NOTHING, after)
    assert judgement.verdict is INCONCLUSIVE
    assert finding(judgement, "transition").code == "cost-limit"


def test_only_what_is_named_is_tried_and_only_under_the_names_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = "".join(f"    - {{create: grant, key: [2, {n}]}}\n" for n in range(9))
    changes = (
        "    - {create: item, key: {new: a}, set: {n: 1}}\n"
        f"    - {{create: grant, key: [3, {{new: a}}]}}\n{others}"
    )
    after = {
        "item": [{"id": 7, "n": 1}],
        "grant": [*({"user": 2, "item": n} for n in range(9)), {"user": 3, "item": 7}],
    }
    monkeypatch.setattr("statediff.policy.transition.MAX_NAMINGS", 5)
    assert truths(run("transition:\n  changes:\n" + changes, NOTHING, after).judgement) == {
        "frame": HOLDS, "transition": HOLDS,
    }  # fmt: skip


def test_literals_go_through_the_rules_of_their_fields() -> None:
    body = (
        "canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]\n"
        "exclude: [{what: item.owner, because: outside}]\n"
        "transition:\n  changes:\n    - {create: item, key: 1, set: {n: 1, t: ABC}}\n"
    )
    assert trial(body, NOTHING, {"item": [item(1, 1, "Abc", owner=3)]}).verdict is MATCH
    assert trial(body, NOTHING, {"item": [item(1, 1, "Abd")]}).verdict is DIVERGE


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("{create: itm, key: 1}", "unknown entity type"),
        ("{create: item, update: item, key: 1}", "one of create"),
        ("{create: item}", "key"),
        ("{create: log, key: 1}", "no key"),
        ("{create: item, key: [1, 2]}", "(id)"),
        ("{create: item, key: 1, set: {m: 1}}", "no field `m`"),
        ("{create: item, key: 1, set: {id: 1}}", "is the key"),
        ("{create: item, key: 1, set: {n: x}}", "n is a number"),
        ("{create: item, key: 1, from: {n: 1}}", "no old values"),
        ("{delete: item, key: 1, set: {n: 1}}", "no new values"),
        ("{update: item, key: 1}", "changes nothing"),
        ("{update: item, key: {new: a}, set: {n: 1}}", "no created entity"),
        ("{create: item, key: 1, set: {owner: {new: a}}}", "no created entity"),
        ("{create: item, key: 1, set: {n: {new: a}}}", "no reference"),
        ("{create: item, key: x}", "id is a number"),
    ],
)
def test_what_is_no_recorded_change_is_refused_with_its_place(changes: str, said: str) -> None:
    with pytest.raises(ContractError) as caught:
        run(f"transition:\n  changes:\n    - {changes}\n", NOTHING, NOTHING)
    problem = caught.value.problems[0]
    assert said in f"{problem.message} {problem.hint}", problem
    assert problem.line == 8


def test_the_same_entity_changes_once_the_same_way() -> None:
    changes = "    - {delete: item, key: 1}\n" * 2
    with pytest.raises(ContractError, match="same way above"):
        run(f"transition:\n  changes:\n{changes}", NOTHING, NOTHING)


OF_A, OF_B = (f"{{create: item, key: {{new: {n}}}, set: {{n: 1}}}}" for n in "ab")
ADA = "{create: user, key: {new: u}, set: {name: Ada, role: user}}"
OWNED = "{update: item, key: 1, set: {owner: {new: u}}}"
HELD = "{delete: item, key: 1, from: {n: 1}}"
LINE: dict[str, Any] = {"item": [{"id": 1, "n": 1}]}
GRANT: dict[str, Any] = {"grant": [{"user": 1, "item": 2}]}
NOT_ONE = "no naming of the new entities makes the changes the recorded ones"


@pytest.mark.parametrize(
    ("changes", "before", "after", "truth", "said"),
    [
        ([OF_A], {}, {}, FAILS, "missing: create item new a"),
        ([OF_A, OF_B], {}, {}, FAILS, "missing: create item new a; and 1 more"),
        (["{create: user, key: 4, set: {name: x}}", "{delete: doc, key: 3}"], {},
         {"item": [item(1), item(2)]}, FAILS,
         "missing: create user 4; not recorded: item 1 created; and 2 more"),
        (["{create: grant, key: [{new: a}, 2]}", OF_A], {}, {}, FAILS,
         "missing: link grant new a, 2; and 1 more"),
        ([OF_A], {}, LINE, HOLDS, "exactly the 1 recorded changes"),
        ([OF_A, OF_B], {}, LINE, FAILS, "1 changes, 2 recorded"),
        ([ADA, OWNED], LINE, {"item": [{"id": 1, "n": 1, "owner": 5}], "user": [user(5)]}, HOLDS,
         "exactly the 2 recorded changes"),
        ([ADA, OWNED], LINE, {"item": [{"id": 1, "n": 1, "owner": 6}], "user": [user(5)]}, FAILS,
         NOT_ONE),
        ([HELD], LINE, {}, HOLDS, "exactly the 1 recorded changes"),
        ([HELD], {"item": [item(1, 2)]}, {}, FAILS,
         "missing: delete item 1; not recorded: item 1 deleted"),
        ([HELD], {"item": [item(1, HIDDEN)]}, {}, UNKNOWN,
         "item[1].n: hidden; needed by transition"),
        (["{create: grant, key: [1, 2]}"], {}, GRANT, HOLDS, "exactly the 1 recorded changes"),
        (["{create: grant, key: [2, 1]}"], {}, GRANT, FAILS,
         "missing: link grant 2, 1; not recorded: grant (1, 2) linked"),
        (["{delete: grant, key: [1, 2]}"], GRANT, {}, HOLDS, "exactly the 1 recorded changes"),
        (["{update: item, key: 1, set: {n: null}}"], LINE, {"item": [{"id": 1, "n": None}]}, HOLDS,
         "exactly the 1 recorded changes"),
        (["{update: item, key: 1, set: {n: 4}}"], LINE, {"item": [{"id": 1, "n": HIDDEN}]}, UNKNOWN,
         "item[1].n: hidden; needed by transition"),
        ([OF_A], {}, {"item": [{"id": 1, "n": HIDDEN}]}, UNKNOWN,
         "item[1].n: hidden; needed by transition"),
        # One key names an item and a user: they are two entities and may have two names.
        ([OF_A, ADA], {}, {**LINE, "user": [user(1)]}, HOLDS, "exactly the 2 recorded changes"),
    ],
)  # fmt: skip
def test_what_is_recorded_and_what_was_done_are_told_apart_in_words(
    changes: list[str], before: Any, after: Any, truth: Any, said: str
) -> None:
    body = "transition:\n  changes:\n" + "".join(f"    - {change}\n" for change in changes)
    found = finding(trial(body, before, after), "transition")
    assert (found.truth, found.sentence) == (truth, said)
    assert found.code == {FAILS: "transition-differs", HOLDS: "holds"}.get(truth, "unobserved")


# ---------------------------------------------------------------- from a file


RECORDED = b"changes:\n  - {create: item, key: {new: it}, set: {n: 1}}\n"
MADE = {"item": [{"id": 4, "n": 1}]}


def written(folder: Path, file: str = "reference.yaml", data: bytes = RECORDED) -> Path:
    digest = hashlib.sha256(data).hexdigest()
    path = folder / "contract.yaml"
    path.write_text(contract(f"transition: {{file: {file}, sha256: '{digest}'}}\n"))
    return path


def judged_file(file: ContractFile, after: Any = None) -> Any:
    sides = (
        capture(side, part(side, state(rows)))
        for side, rows in (("before", NOTHING), ("after", MADE if after is None else after))
    )
    return evaluate(file, *sides)


def test_a_recorded_reference_may_stand_in_a_file_beside_the_contract(tmp_path: Path) -> None:
    (tmp_path / "reference.yaml").write_bytes(RECORDED)
    found = judged_file(load_contract(written(tmp_path)))
    assert found.judgement.verdict is MATCH
    assert judged_file(load_contract(written(tmp_path)), NOTHING).judgement.verdict is DIVERGE


def test_its_bundle_holds_the_file_and_is_replayed_without_the_folder(tmp_path: Path) -> None:
    (tmp_path / "reference.yaml").write_bytes(RECORDED)
    found = judged_file(load_contract(written(tmp_path)))
    save(found.bundle, tmp_path / "bundle")
    (tmp_path / "reference.yaml").unlink()
    known = load(tmp_path / "bundle")
    assert known.files["transition.yaml"] == RECORDED
    assert document(replay(known)) == document(found.judgement)


def test_a_bundle_whose_reference_is_withheld_or_changed_gives_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "reference.yaml").write_bytes(RECORDED)
    bundle = judged_file(load_contract(written(tmp_path))).bundle
    without = {n: data for n, data in bundle.files.items() if n != "transition.yaml"}
    with pytest.raises(BundleError):
        replay(Bundle(bundle.manifest, without))
    other = {**bundle.files, "transition.yaml": RECORDED.replace(b"1}", b"2}")}
    with pytest.raises((BundleError, ContractError)):
        replay(Bundle(bundle.manifest, other))
    plain = run("forbid: [{delete: item}]\n", NOTHING, NOTHING).bundle
    with pytest.raises(BundleError, match="names no such file"):
        replay(Bundle(plain.manifest, {**plain.files, "transition.yaml": RECORDED}))


def test_a_changed_file_is_refused_by_its_digest(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "reference.yaml").write_bytes(RECORDED + b"\n")
    with pytest.raises(ContractError, match="another digest"):
        load_contract(path)


@pytest.mark.parametrize("name", ["../outside.yaml", "/etc/passwd", "a//b", ".hidden", "a/../b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside.yaml").write_bytes(RECORDED)
    (tmp_path / "in").mkdir()
    with pytest.raises(ContractError, match="the name of a file"):
        load_contract(written(tmp_path / "in", name))


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_bytes(RECORDED)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "reference.yaml").symlink_to(tmp_path / "outside.yaml")
    with pytest.raises(ContractError, match="outside the contract's folder"):
        load_contract(written(folder))


def test_a_file_that_is_not_there_or_not_a_list_of_changes_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(ContractError, match="found nothing"):
        load_contract(path)
    (tmp_path / "reference.yaml").write_bytes(b"changes: 1\n")
    with pytest.raises(ContractError, match="a list of changes"):
        load_contract(written(tmp_path, data=b"changes: 1\n"))


def test_a_contract_from_no_folder_has_no_file_beside_it() -> None:
    text = contract(f"transition: {{file: a.yaml, sha256: '{'0' * 64}'}}\n")
    with pytest.raises(ContractError, match="no folder"):
        parse_contract(text.encode(), "c.yaml")


@pytest.mark.parametrize(
    ("transition", "said"),
    [
        ("{}", "either `changes` or `file`"),
        ("{file: a.yaml}", "stand together"),
        ("{file: a.yaml, sha256: abc}", "64 digits"),
        (f"{{changes: [], sha256: '{'0' * 64}'}}", "stand together"),
    ],
)
def test_a_transition_is_written_or_pinned(transition: str, said: str) -> None:
    with pytest.raises(ContractError, match=said):
        run(f"transition: {transition}\n", NOTHING, NOTHING)
