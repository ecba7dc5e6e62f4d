"""Versions: released contracts never change, others sign them off, a diff says what moved."""

from pathlib import Path

import pytest

from statediff.contract.lint import CATALOGUE
from tests.cli.conftest import JUDGE, Call, Files

BY = ("--by", "Ada", "--on", "2026-01-31")
SIGNED = ("--by", "Grace", "--on", "2026-02-01")


def contract(files: Files, *edits: tuple[str, str], name: str = "n.yaml") -> str:
    text = Path(files.folder, "c.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return files.write(name, text)


@pytest.mark.usefixtures("files")
def test_a_released_version_is_signed_off_by_somebody_else(statediff: Call, files: Files) -> None:
    none = statediff("contract", "release", "c.yaml", "--by", "Ada", "--on", "2026-02-30")
    assert (none.code, "'2026-02-30' is no day" in none.err) == (2, True)
    said = statediff("contract", "release", "c.yaml", *BY, "--json")
    assert said.code == 0
    assert said.json["contract"] == "notes/close-ticket@1.0.0"
    assert said.json["reviewed"] is None
    assert statediff("contract", "sign-off", "c.yaml", *BY).code == 2
    alone = statediff("check", "c.yaml", "--before", "a.json", "--json").json
    assert [p["code"] for p in alone["contracts"][0]["problems"]] == ["unreviewed"]
    itself = statediff("contract", "sign-off", "c.yaml", "--by", " ADA ", "--on", "2026-02-01")
    assert "somebody else must review it" in itself.err
    assert statediff("contract", "sign-off", "c.yaml", *SIGNED).code == 0
    assert statediff("check", "c.yaml", "--before", "a.json", "--json").json["warnings"] == 0
    kept = Path(files.folder, "released.yaml").read_text(encoding="utf-8")
    assert 'reviewed: {by: "Grace", on: "2026-02-01"}' in kept
    again = statediff("contract", "sign-off", "c.yaml", *SIGNED)
    assert "signed off already" in again.err
    assert "released already" in statediff("contract", "release", "c.yaml", *BY).err


@pytest.mark.usefixtures("files")
def test_a_second_reading_signs_off_without_a_name(statediff: Call, files: Files) -> None:
    found = "the prompt and every clause agree; one date had no upper bound, which was added"
    reading = ("--second-reading", found, "--on", "2026-02-01")
    assert statediff("contract", "release", "c.yaml", *BY).code == 0
    both = statediff("contract", "sign-off", "c.yaml", *SIGNED, "--second-reading", found)
    assert "either --by NAME or --second-reading TEXT" in both.err
    assert statediff("contract", "sign-off", "c.yaml", "--on", "2026-02-01").code == 2
    short = statediff(
        "contract", "sign-off", "c.yaml", "--second-reading", "ok", "--on", "2026-02-01"
    )
    assert "this is no sign-off" in short.err
    assert statediff("contract", "sign-off", "c.yaml", *reading).code == 0
    kept = Path(files.folder, "released.yaml").read_text(encoding="utf-8")
    assert "      kind: second-reading\n" in kept
    assert f'      found: "{found}"\n' in kept
    assert "by:" not in kept.partition("reviewed:")[2]
    assert statediff("check", "c.yaml", "--before", "a.json", "--json").json["warnings"] == 0
    again = statediff("contract", "sign-off", "c.yaml", *SIGNED)
    assert "signed off already, by a second reading" in again.err


@pytest.mark.parametrize(
    "review",
    [
        'by: "Grace"\n      kind: second-reading\n      found: "nothing is missing"',
        'kind: person\n      found: "nothing is missing"',
        "kind: second-reading",
        'kind: model\n      found: "nothing is missing"',
        'by: "Grace"\n      found: "nothing is missing"',
    ],
)
@pytest.mark.usefixtures("files")
def test_a_sign_off_of_no_kind_is_refused(statediff: Call, files: Files, review: str) -> None:
    assert statediff("contract", "release", "c.yaml", *BY).code == 0
    path = Path(files.folder, "released.yaml")
    more = f'    reviewed:\n      on: "2026-02-01"\n      {review}\n'
    path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    assert statediff("check", "c.yaml", "--before", "a.json").code == 2


@pytest.mark.usefixtures("files")
def test_a_released_version_with_another_digest_is_refused(statediff: Call, files: Files) -> None:
    assert statediff("contract", "release", "c.yaml", *BY).code == 0
    path = Path(files.folder, "c.yaml")
    path.write_text(path.read_text(encoding="utf-8") + "# later\n", encoding="utf-8")
    said = statediff("check", "c.yaml", "--before", "a.json", "--json")
    assert said.code == 2
    assert [p["code"] for p in said.json["contracts"][0]["problems"]] == ["released-changed"]
    assert "raise `version`" in statediff("contract", "release", "c.yaml", *BY).err
    assert "what is reviewed is what was released" in (
        statediff("contract", "sign-off", "c.yaml", *SIGNED).err
    )
    ran = statediff("run", "c.yaml", "--agent-cmd", "true")
    assert ran.code == 2
    assert "was released with digest" in ran.err
    path.write_text(
        path.read_text(encoding="utf-8").replace("version: 1.0.0", "version: 1.0.1"),
        encoding="utf-8",
    )
    assert statediff("check", "c.yaml", "--before", "a.json").code == 0
    assert statediff("contract", "release", "c.yaml", *BY).code == 0


@pytest.mark.usefixtures("files")
def test_fmt_leaves_a_released_version_as_it_is(statediff: Call, files: Files) -> None:
    contract(files, ("owner: support", "owner:    support"), name="c.yaml")
    assert statediff("contract", "release", "c.yaml", *BY).code == 0
    before = Path(files.folder, "c.yaml").read_bytes()
    assert "released" in statediff("fmt", "c.yaml").out
    assert Path(files.folder, "c.yaml").read_bytes() == before


def test_what_lint_finds_an_error_in_is_not_released(statediff: Call, files: Files) -> None:
    contract(files, ("intent: Close", "prompt: '{nobody}'\nintent: Close"), name="c.yaml")
    said = statediff("contract", "release", "c.yaml", *BY)
    assert said.code == 2
    assert "nobody" in said.err
    assert not Path(files.folder, "released.yaml").exists()


@pytest.mark.parametrize(
    "text",
    [
        "released: statediff/released/2\n",
        "released: statediff/released/1\ncontracts: {a@1: {digest: x, released_by: me, on: '1'}}\n",
        "released: statediff/released/1\ncontracts:\n  a@1.0.0:\n    digest: '" + "0" * 64 + "'\n"
        "    released_by: Ada\n    on: '2026-01-01'\n    reviewed: {by: ada, on: '2026-01-02'}\n",
    ],
    ids=["format", "shape", "self-reviewed"],
)
def test_a_damaged_or_dishonest_lock_is_refused(statediff: Call, files: Files, text: str) -> None:
    files.write("released.yaml", text)
    said = statediff("check", "c.yaml", "--before", "a.json", "--json")
    assert said.code == 2
    codes = {p["code"] for p in said.json["contracts"][0]["problems"]}
    assert codes <= set(CATALOGUE)


MAJOR, MINOR, PATCH = "task semantics", "evidence collection", "presentation only"


@pytest.mark.parametrize(
    ("edit", "touches", "where"),
    [
        (("status: closed", "status: done"), MAJOR, "require.closed.set.status"),
        (("{ticket: 7}", "{ticket: 8}"), MAJOR, "inputs.ticket"),
        (("forbid:", "noop: true\nforbid:"), MAJOR, "noop"),
        (("inputs:", "evidence:\n  tables: {max_age: 5s}\ninputs:"), MINOR, "evidence"),
        (("owner: support", "owner: billing"), PATCH, "owner"),
        (("owner: support", "owner: support  # us"), PATCH, None),
        (
            ("inputs:", "exclude: [{what: user.name, because: private}]\ninputs:"),
            MAJOR,
            "exclude",
        ),
    ],
)
def test_each_change_is_of_a_class_that_demands_a_version(
    statediff: Call, files: Files, edit: tuple[str, str], touches: str, where: str | None
) -> None:
    contract(files, edit)
    said = statediff("contract", "diff", "c.yaml", "n.yaml", "--json")
    assert said.code == 2, "the version was not raised"
    assert said.json["touches"] == touches
    assert [c["where"] for c in said.json["changes"]] == ([where] if where else [])
    least = {MAJOR: "2.0.0", MINOR: "1.1.0", PATCH: "1.0.1"}[touches]
    assert said.json["least_version"] == least
    contract(files, edit, ("version: 1.0.0", f"version: {least}"))
    raised = statediff("contract", "diff", "c.yaml", "n.yaml", "--json")
    assert raised.code == 0
    assert raised.json["version_ok"]
    contract(files, edit, ("version: 1.0.0", "version: 0.9.9"))
    assert statediff("contract", "diff", "c.yaml", "n.yaml").code == 2


@pytest.mark.usefixtures("files")
def test_the_same_file_needs_no_version(statediff: Call) -> None:
    said = statediff("contract", "diff", "c.yaml", "c.yaml", "--json")
    assert said.code == 0
    assert said.json["touches"] is None


def test_the_note_lists_changes_and_the_trials_judged_by_the_old_version(
    statediff: Call, files: Files
) -> None:
    assert statediff(*JUDGE, "--out", "runs/one/trials/a/bundle").code == 0
    contract(files, ("notes/close-ticket", "notes/other"), name="o.yaml")
    other = ("judge", "o.yaml", *JUDGE[2:])
    assert statediff(*other, "--out", "runs/one/trials/b/bundle").code == 0
    Path(files.folder, "runs", "bad").mkdir()
    files.write("runs/bad/manifest.json", "{}")
    contract(files, ("status: closed", "status: '<b>|`done`'"), ("1.0.0", "2.0.0"))
    said = statediff(
        "contract", "diff", "c.yaml", "n.yaml", "--runs", "runs", "--note", "note.md", "--json"
    )
    assert said.code == 0
    [trial] = said.json["affected"]
    assert trial["verdict"] == "MATCH"
    assert trial["bundle"].endswith("a/bundle")
    assert len(said.json["unreadable"]) == 1
    note = Path(files.folder, "note.md").read_text(encoding="utf-8")
    assert "touches **task semantics**" in note
    assert "`offline` MATCH in `runs/one/trials/a/bundle`" in note
    assert "\\<b\\>\\|" in note
    assert "could not be read" in note


def test_schema_files_and_packs_are_compared_too(statediff: Call, files: Files) -> None:
    head = "schema: notes\nversion: 1.0.0\nentities:\n"
    files.write("s1.yaml", head + "  ticket: {table: tickets}\n")
    files.write("s2.yaml", head + "  ticket: {table: issues}\n")
    said = statediff("contract", "diff", "s1.yaml", "s2.yaml", "--json")
    assert (said.json["kind"], said.json["touches"]) == ("state schema", MINOR)
    files.write("s2.yaml", head + "  ticket: {table: tickets, deleted_when: gone}\n")
    assert statediff("contract", "diff", "s1.yaml", "s2.yaml", "--json").json["touches"] == MAJOR
    for name, seed in (("p1", "1"), ("p2", "2")):
        Path(files.folder, name).mkdir()
        files.write(f"{name}/seed.sql", seed)
        files.write(f"{name}/schema.yaml", head + "  ticket: {table: tickets}\n")
        files.write(
            f"{name}/pack.yaml",
            "sandbox: p\nversion: 1.0.0\nabout: a\nreal: [a]\nsimulated: [b]\n"
            "sources: {db: {kind: sqlite, seed: seed.sql, schema: schema.yaml}}\n",
        )
    said = statediff("contract", "diff", "p1", "p2", "--json")
    assert [(c["area"], c["where"]) for c in said.json["changes"]] == [
        ("base state", "files.seed.sql")
    ]
    assert said.json["touches"] == MAJOR
    files.write("p2/seed.sql", "1")
    files.write("p2/schema.yaml", head + "  ticket: {table: issues}\n")
    assert statediff("contract", "diff", "p1", "p2", "--json").json["touches"] == MINOR


def test_the_lock_is_as_it_was_read(statediff: Call, files: Files) -> None:
    from statediff.contract.authoring.versions import read_releases, written  # noqa: PLC0415 - the law's subject

    contract(files, name="c.yaml")
    assert statediff("contract", "release", "c.yaml", *BY).code == 0
    assert statediff("contract", "sign-off", "c.yaml", *SIGNED).code == 0
    data = Path(files.folder, "released.yaml").read_bytes()
    assert written(read_releases(data, "released.yaml")) == data
