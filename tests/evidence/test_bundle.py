"""A bundle gives its verdict again, or none: whatever is changed or withheld, never another one."""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.errors import BundleError, NotReplayable
from statediff.evidence.canonical import write
from statediff.evidence.package import FILES, Bundle, load, save
from statediff.kernel import KERNEL, Evaluated, replay
from statediff.model.values import Map, Value
from tests.histories import course
from tests.judging import (
    CUT,
    DIVERGE,
    INCONCLUSIVE,
    MATCH,
    TIMELINE,
    document,
    item,
    judged,
    run,
    state,
    user,
)

BODY = """\
exclude: [{what: user.name, because: outside}]
canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]
forbid:
  - {id: no-users, delete: user}
  - {id: no-admin, that: 'any(u.role == "admin" for u in after.user)'}
require:
  - id: made
    create: item
    where: 'it.owner.role == "user" and not exists(before.item[7])'
    count: {min: 1}
    that: 'sum(i.n for i in them) == 3'
allow:
  - {update: item, fields: [t]}
effects:
  - {on: create item, authorized_by: 'exists(before.user[1])'}
answer:
  schema: {n: int}
  claims:
    - answer.n == count(i for i in after.item)
"""
BEFORE = {"user": [user(1), user(2)], "item": [item(1, t="A")]}
AFTER = {"user": [user(1), user(2)], "item": [item(1, t="a"), item(2, 3, owner=1)]}


WIDE = """\
forbid: [{id: no-admin, create: user, where: 'it.role == "admin"'}]
allow:
  - {id: gone, delete: user, where: 'it.id == 3'}
  - {id: with-it, delete: item, where: 'it.owner == 3'}
derive:
  - id: counted
    field: item.n
    is: count(i for i in after.item if i.owner == it.owner)
    because: the system counts
any_of:
  made: {require: [{create: item, where: 'it.owner == 1'}]}
  hired: {require: [{create: user}], forbid: [{create: item}]}
"""
WIDE_BEFORE = {"user": [user(1), user(3)], "item": [item(1, 1, owner=1), item(3, 1, owner=3)]}


def wide(kind: str) -> Evaluated:
    """A trial with branches and a derived field."""
    wrong = 5 if kind == "DIVERGE" else 2
    after = {"user": [user(1)], "item": [item(1, 2, owner=1), item(2, wrong, owner=1)]}
    seen = state(after, {"user": CUT}) if kind == "INCONCLUSIVE" else after
    return run(WIDE, WIDE_BEFORE, seen, timeline=TIMELINE)


def trial(kind: str) -> Evaluated:
    after: Any = dict(AFTER)
    if kind == "DIVERGE":
        after["item"] = [item(1, t="a"), item(2, 4, owner=1)]
    if kind == "INCONCLUSIVE":
        after = state(AFTER, {"user": CUT})
    return run(BODY, BEFORE, after, answer={"n": 2}, timeline=TIMELINE)


ALONG = """\
canonicalize: [{use: casefold@1, on: [item.t], because: case is noise}]
forbid:
  - {id: no-grant, link: grant, during: run}
  - {id: few, create: item, count: {min: 3}, during: run}
  - {id: no-admin, that: 'any(u.role == "admin" for u in after.user)', during: run}
require:
  - {id: made, create: item, where: 'it.owner.role == "user"', during: run}
allow:
  - {id: moved, update: item, fields: [n]}
evidence: {db: {history: required}}
steps:
  - {id: positive, always: 'all(i.n > 0 for i in now.item)'}
  - {id: first, on: create item, before: update item}
"""


def along(kind: str) -> Evaluated:
    """A trial with a history that every kind of clause reads."""
    half = {**BEFORE, "item": [*BEFORE["item"], item(2, 3, owner=1)]}
    after = {**BEFORE, "item": [item(1, 2, t="A"), item(2, 3, owner=1)]}
    passing = {**half, "grant": [{"user": 1, "item": 1}]}
    between = [half, passing, half] if kind == "DIVERGE" else [half]
    gap = "the feed broke off" if kind == "INCONCLUSIVE" else None
    return course(ALONG, BEFORE, between, after, gap=gap, timeline=TIMELINE)


VERDICTS = ("MATCH", "DIVERGE", "INCONCLUSIVE")
TRIALS = {
    **{kind: trial(kind) for kind in VERDICTS},
    **{f"{kind}, wide": wide(kind) for kind in VERDICTS},
    **{f"{kind}, along": along(kind) for kind in VERDICTS},
}


def resealed(bundle: Bundle, files: dict[str, bytes], **facts: Any) -> Bundle:
    """The changed files under a manifest that agrees with them: a forger's best attempt."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    return Bundle({**bundle.manifest, "files": digests, **facts}, files)


def verdict_in(kind: str) -> str:
    return kind.partition(",")[0]


def verdict_of(bundle: Bundle) -> str | None:
    try:
        return replay(bundle).verdict.value
    except BundleError:
        return None


@pytest.mark.parametrize("kind", sorted(TRIALS))
def test_a_bundle_replays_to_the_same_bytes(kind: str, tmp_path: Path) -> None:
    done = TRIALS[kind]
    assert done.judgement.verdict.value == verdict_in(kind)
    save(done.bundle, tmp_path / "b")
    assert (tmp_path / "b").stat().st_mode & 0o077 == 0
    loaded = load(tmp_path / "b")
    assert loaded.digest == done.bundle.digest
    assert write(document(replay(loaded))) == done.bundle.files["judgement.json"]
    assert loaded.manifest["verdict"] == verdict_in(kind)


@given(st.sampled_from(sorted(TRIALS)), st.sampled_from(FILES), st.data())
def test_no_flipped_bit_ever_gives_another_verdict(
    kind: str, name: str, data: st.DataObject
) -> None:
    bundle = TRIALS[kind].bundle
    content = bytearray(bundle.files[name])
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    files = {**bundle.files, name: bytes(content)}
    assert verdict_of(resealed(bundle, files)) in (None, verdict_in(kind))
    digest = hashlib.sha256(bytes(content)).hexdigest()
    forged = resealed(bundle, files, contract_digest=digest) if name == "contract.yaml" else None
    if forged is not None:
        assert verdict_of(forged) in (None, verdict_in(kind))


def paths(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every member of every object and list in the document."""
    found = []
    entries = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ()
    )  # fmt: skip
    for key, inner in entries:
        found += [(*above, key), *paths(inner, (*above, key))]
    return found


WITHHELD = [
    (kind, name, path)
    for kind in sorted(TRIALS)
    for name in ("fragments.json", "index.json", "captures.json", "resolution.json", "schema.json")
    for path in paths(TRIALS[kind].bundle.document(name))
]


@given(st.sampled_from(WITHHELD))
def test_nothing_withheld_ever_gives_another_verdict(
    withheld: tuple[str, str, tuple[Any, ...]],
) -> None:
    kind, name, path = withheld
    bundle = TRIALS[kind].bundle
    changed = copy.deepcopy(bundle.document(name))
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    files = {**bundle.files, name: write(changed)}
    assert verdict_of(resealed(bundle, files)) in (None, verdict_in(kind))


@pytest.mark.parametrize("kind", sorted(TRIALS))
def test_a_bundle_without_a_fragment_it_read_cannot_be_replayed(kind: str) -> None:
    bundle = TRIALS[kind].bundle
    fragments = bundle.document("fragments.json")
    for part in ("rows", "scans"):
        for index in range(len(fragments[0][part])):
            less = copy.deepcopy(fragments)
            del less[0][part][index]
            with pytest.raises(
                (NotReplayable, BundleError), match=r"not hold|not all there|no matching"
            ):
                replay(resealed(bundle, {**bundle.files, "fragments.json": write(less)}))


def test_a_scan_that_lost_a_member_is_noticed() -> None:
    bundle = run(
        "forbid:\n  - {id: f, that: 'any(u.role == \"admin\" for u in after.user)'}\n",
        {"user": [user(1, "admin")]}, {"user": [user(1, "admin")]},
    ).bundle  # fmt: skip
    fragments = bundle.document("fragments.json")
    fragments[0]["scans"][0]["members"] = []
    with pytest.raises(BundleError):
        replay(resealed(bundle, {**bundle.files, "fragments.json": write(fragments)}))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("captures.json", lambda d: d["after"][0]["reading"].update(is_agent_influenced=True)),
        ("captures.json", lambda d: d["after"][0]["reading"].update(digest=None)),
        ("captures.json", lambda d: d.update(refusals=[["after", "db", "stale: no"]])),
        ("timeline.json", lambda d: d.update(settled_at=["null"])),
        ("timeline.json", lambda d: d["unsettled"].append(["db", "busy"])),
        ("trial.json", lambda d: d.update(sources=["db", "mail"])),
        ("trial.json", lambda d: d.update(id="another")),
        ("answer.json", lambda d: d.update(answer=["map", [["n", ["int", "3"]]]])),
        ("index.json", lambda d: d[0]["deltas"].update(item=9)),
        ("resolution.json", lambda d: d["doubts"].append({"type": "item"})),
        ("index.json", lambda d: d[0]["read_sets"].update({"no-admin": []})),
    ],
)
def test_evidence_that_tells_another_story_is_refused(name: str, change: Any) -> None:
    bundle = TRIALS["MATCH"].bundle
    told = bundle.document(name)
    change(told)
    with pytest.raises(BundleError):
        replay(resealed(bundle, {**bundle.files, name: write(told)}))


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["transactions"].pop(),
        lambda h: (h["transactions"].pop(), h["lines"][0]["touched"].pop()),
        lambda h: (h["transactions"].clear(), h["lines"][0]["touched"].clear()),
        lambda h: h["lines"][0].update(gap="it broke off"),
        lambda h: h["readings"][0].update(is_complete=False, cause="it broke off"),
        lambda h: h["readings"][0].update(is_agent_influenced=True),
        lambda h: h["readings"].clear(),
        lambda h: h["lines"].clear(),
        lambda h: h["lines"][0]["touched"][0].clear(),
        lambda h: h["lines"][0]["touched"][0].append("user"),
    ],
)
@pytest.mark.parametrize("kind", ["MATCH", "DIVERGE"])
def test_a_history_that_tells_another_story_is_refused(kind: str, change: Any) -> None:
    bundle = TRIALS[f"{kind}, along"].bundle
    told = bundle.document("captures.json")
    change(told["history"])
    with pytest.raises(BundleError):
        replay(resealed(bundle, {**bundle.files, "captures.json": write(told)}))


def test_what_was_not_enumerated_cannot_be_said_to_be_absent() -> None:
    bundle = run("forbid: [{delete: item}]\nrequire:\n  - {that: 'exists(after.user[9])'}\n",
                 BEFORE, state(BEFORE, {"user": CUT})).bundle  # fmt: skip
    fragments = bundle.document("fragments.json")
    (row,) = [r for r in fragments[0]["rows"] if r["presence"] == "UNOBSERVED"]
    row["presence"] = "ABSENT"
    with pytest.raises(BundleError, match="ABSENT"):
        replay(resealed(bundle, {**bundle.files, "fragments.json": write(fragments)}))


@pytest.mark.parametrize(
    "fact",
    ["verdict", "contract", "contract_version", "contract_digest", "schema", "rules", "trial"],
)
def test_a_manifest_that_says_something_else_is_refused(fact: str) -> None:
    bundle = TRIALS["MATCH"].bundle
    with pytest.raises(BundleError, match=fact):
        replay(resealed(bundle, dict(bundle.files), **{fact: "DIVERGE"}))


def test_another_kernel_is_no_damage_but_no_replay() -> None:
    bundle = TRIALS["MATCH"].bundle
    with pytest.raises(NotReplayable, match="kernel"):
        replay(resealed(bundle, dict(bundle.files), kernel=KERNEL + "0"))


def test_a_contract_that_is_none_is_a_damaged_bundle_not_a_users_mistake() -> None:
    bundle = TRIALS["MATCH"].bundle
    for text in (
        b"",
        b"contract: x\n",
        b"\xff",
        bundle.files["contract.yaml"].replace(b"made", b""),
    ):
        with pytest.raises(BundleError):
            replay(resealed(bundle, {**bundle.files, "contract.yaml": text}))


# ---------------------------------------------------------------- on disk


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_file_that_is_missing_changed_or_no_file_is_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    save(TRIALS["MATCH"].bundle, folder)
    path = folder / name
    data = path.read_bytes()
    path.unlink()
    with pytest.raises(BundleError):
        load(folder)
    path.symlink_to("/dev/null")
    with pytest.raises(BundleError):
        load(folder)
    path.unlink()
    path.mkdir()
    with pytest.raises(BundleError):
        load(folder)
    path.rmdir()
    path.write_bytes(data + b"\n")
    with pytest.raises(BundleError):
        load(folder)
    path.write_bytes(data)
    assert load(folder).digest == TRIALS["MATCH"].bundle.digest


def test_a_file_too_many_is_refused(tmp_path: Path) -> None:
    save(TRIALS["MATCH"].bundle, tmp_path)
    (tmp_path / "more.json").write_bytes(b"{}")
    with pytest.raises(BundleError, match=r"more\.json"):
        load(tmp_path)


def test_the_deepest_value_a_state_may_hold_can_be_replayed() -> None:
    deep: Value = 1
    for level in range(62):
        deep = Map((("a", deep),)) if level % 2 else (deep,)
    body = "answer:\n  schema: {x: any}\n  claims: [{that: 'answer.x != null'}]\n"
    done = run(body, BEFORE, BEFORE, answer={"x": deep})
    assert done.judgement.verdict is MATCH
    assert replay(done.bundle).verdict is MATCH


def test_verdicts_are_what_the_trials_say() -> None:
    assert {t.judgement.verdict for t in TRIALS.values()} == {MATCH, DIVERGE, INCONCLUSIVE}
    assert judged(BODY, BEFORE, BEFORE, answer={"n": 1}).verdict is DIVERGE


def test_the_manifest_says_how_long_each_source_is_kept_and_who_may_see_it() -> None:
    body = "forbid: [{delete: user}]\nevidence: {db: {retain: 30d, disclose: reviewer}, mail: {}}\n"
    found = run(body, {}, {})
    assert found.bundle.manifest["keeping"] == {
        "db": {"retain": "30d", "disclose": "reviewer"},
        "mail": {"retain": None, "disclose": "auditor"},
    }
    wider = {**found.bundle.manifest["keeping"], "db": {"retain": "30d", "disclose": "public"}}
    with pytest.raises(BundleError, match="keeping"):
        replay(resealed(found.bundle, dict(found.bundle.files), keeping=wider))
