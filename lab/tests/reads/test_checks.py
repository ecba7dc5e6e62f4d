"""A configuration is checked before any agent runs."""

import pytest
from statediff_lab.reads.checks import problems
from statediff_lab.reads.config import parse_config
from statediff_lab.reads.instants import instant, last_instant
from statediff_lab.reads.log import Corpus, corpus_of
from statediff_lab.reads.world import load_pack, pack_names

from lab.tests.reads.office import CONFIG, DAY, artifact, event
from statediff.errors import ContractError, InputError

LINK = b"join: [incident]\n    max_gap: 3d\n    mechanism"


def codes(config: bytes, corpus: Corpus) -> set[tuple[str, str]]:
    found = problems(parse_config(config, "config.yaml"), corpus)
    return {(problem.severity, problem.code) for problem in found}


def world() -> Corpus:
    return corpus_of(
        [
            event("e1", "incident_opened", DAY, actors=("alex",), facts={"incident": "a"},
                  artifacts=("j1",)),
            event("e2", "contact_summarized", 2 * DAY, facts={"incident": "a"}, artifacts=("j2",)),
            event("e3", "other", 20 * DAY),
        ],
        [artifact("j1", "jira", facts={"kind": "issue", "incident": "a"}),
         artifact("j2", "jira", 2 * DAY, facts={"kind": "issue", "incident": "a"})],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["starter", "support", "healthcare", "lending"])
def test_the_packs_have_no_error(name: str) -> None:
    pack = load_pack(name)
    found = problems(pack.config, pack.corpus)
    assert [problem for problem in found if problem.severity == "error"] == []


def test_five_packs_ship_and_no_two_share_a_type_of_event() -> None:
    assert pack_names() == ("enterprise", "healthcare", "lending", "starter", "support")
    types = {
        name: {each.effect for each in load_pack(name).config.content.causal_links}
        for name in ("healthcare", "lending", "support")
    }
    assert len(set().union(*types.values())) == sum(map(len, types.values()))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (LINK, LINK.replace(b"incident", b"ticket", 1), ("error", "no-links")),
        (b"cause: incident_opened", b"cause: incident_opend", ("error", "unknown-name")),
        (b"subsystem: jira, where", b"subsystem: wiki, where", ("error", "unknown-name")),
        (b"{kind: issue}", b"{kind: page}", ("error", "empty-search-space")),
        (b"sees: [zoom]", b"sees: [zom]", ("error", "unknown-name")),
        (b"roles:", b"roles:\n  unused: {sees: [zoom]}", ("warning", "unused-role")),
        (b"sees: []", b"sees: []", ("warning", "blind-role")),
        (b"ghost: nobody", b"ghost: nobody", ("error", "unknown-name")),
        (b"zone: UTC", b"zone: UTC", ("error", "unfilled-bucket")),
    ],
)  # fmt: skip
def test_each_kind_of_mistake_is_named(old: bytes, new: bytes, expected: tuple[str, str]) -> None:
    assert old in CONFIG
    assert expected in codes(CONFIG.replace(old, new, 1), world())


def test_artifacts_that_events_name_must_exist() -> None:
    corpus = corpus_of([event("e", "x", 1, artifacts=("gone",))], [artifact("a", "cellar")])
    assert {("error", "missing-artifact"), ("error", "unknown-subsystem")} <= codes(CONFIG, corpus)


@pytest.mark.parametrize(
    "text", [b"reads: x\nversion: 1.0.0\nsubsystem: [a]", b"reads: x", b"zone: Nowhere/At_All"]
)
def test_unknown_keys_and_zones_are_refused_with_their_line(text: bytes) -> None:
    config = CONFIG.replace(b"zone: UTC", text) if text.startswith(b"zone") else text
    with pytest.raises(ContractError):
        parse_config(config, "config.yaml")


def test_instants_compare_as_times_and_want_a_zone() -> None:
    early = instant("2026-03-06T00:10:00+02:00", None, "x")
    late = instant("2026-03-05T23:30:00Z", None, "x")
    assert early < late
    assert last_instant("2026-03-05", parse_config(CONFIG, "c").zone, "x") > late
    for text in ("2026-03-05T23:30:00", "yesterday", ""):
        with pytest.raises(InputError):
            instant(text, None, "x")


def test_an_id_stands_for_one_thing() -> None:
    with pytest.raises(InputError, match="two artifacts"):
        corpus_of((), [artifact("a", "jira"), artifact("a", "zoom")])
