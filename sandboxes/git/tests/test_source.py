import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pygit2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_git.source import GitSource, longest_in_order
from statediff_git.types import TYPE_NAMES

from sandboxes.git.tests.git_repositories import (
    T0,
    capture,
    clock,
    committed,
    coverage,
    deltas,
    doubts,
    git,
    repository,
    rows,
    state,
    write,
)
from statediff.capture.source import SourceUnavailable
from statediff.model.delta import Op
from statediff.model.readings import Capture
from statediff.model.state import MemoryChunks
from tests.judging import MATCH, judged

pytestmark = pytest.mark.clients("git")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def files_of(path: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for one in path.rglob("*"):
        status = one.lstat()
        content = one.read_bytes() if one.is_file() and not one.is_symlink() else b""
        found[str(one)] = (status.st_mtime_ns, status.st_ino, content)
    return found


# What is read


def test_every_type_of_an_ordinary_repository_is_read_completely(repo):
    found = capture(repo)
    assert found.reading.is_complete
    assert found.reading.cause is None
    assert [t.name for t in found.state.schema.types] == [f"git.{name}" for name in TYPE_NAMES]
    counts = {n.removeprefix("git."): t.row_count for n, t in found.state.tables.items()}
    assert counts == {
        "admin_file": 0,
        "commit": 3,
        "config": 4,
        "file": 5,
        "hook": 0,
        "index_entry": 2,
        "ref": 4,
        "repository": 1,
        "tag": 1,
        "work_file": 2,
    }


def test_refs_say_what_they_point_at_and_which_commit_that_is(repo):
    main = git(repo, "rev-parse", "main")
    found = rows(state(repo), "ref")
    assert list(found) == ["refs/heads/main", "refs/heads/topic", "refs/tags/light", "refs/tags/v1"]
    assert found["refs/heads/main"] == {
        "name": "refs/heads/main",
        "kind": "branch",
        "target": main,
        "commit": main,
        "symbolic_target": None,
    }
    assert found["refs/tags/v1"]["kind"] == "tag"
    assert found["refs/tags/v1"]["target"] == git(repo, "rev-parse", "v1")
    assert found["refs/tags/v1"]["commit"] == main
    assert found["refs/tags/light"]["commit"] == git(repo, "rev-parse", "main~1")


def test_a_symbolic_ref_shows_its_target_and_kinds_follow_the_name(repo):
    git(repo, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/topic")
    git(repo, "symbolic-ref", "refs/heads/unborn", "refs/heads/later")
    git(repo, "notes", "add", "--message=seen", "main")
    git(repo, "update-ref", "refs/keep/this", "main")
    git(repo, "update-ref", "refs/keep/blob", "main:README")
    found = rows(state(repo), "ref")
    symbolic = found["refs/remotes/origin/HEAD"]
    assert symbolic["kind"] == "remote"
    assert symbolic["symbolic_target"] == "refs/heads/topic"
    assert symbolic["commit"] == symbolic["target"] == git(repo, "rev-parse", "topic")
    unborn = found["refs/heads/unborn"]
    assert unborn["symbolic_target"] == "refs/heads/later"
    assert unborn["target"] is None
    assert unborn["commit"] is None
    assert found["refs/notes/commits"]["kind"] == "note"
    assert found["refs/keep/this"]["kind"] == "other"
    assert found["refs/keep/blob"]["target"] == git(repo, "rev-parse", "main:README")
    assert found["refs/keep/blob"]["commit"] is None
    assert coverage(state(repo)) == {}


def test_commits_carry_both_people_instants_in_utc_message_tree_and_parents(repo):
    main, first = git(repo, "rev-parse", "main", "main~1").split()
    found = rows(state(repo), "commit")
    assert found[main] == {
        "id": main,
        "author_name": "Ada",
        "author_email": "ada@example.org",
        "authored_at": datetime.fromtimestamp(T0, UTC),
        "committer_name": "Bob",
        "committer_email": "bob@example.org",
        "committed_at": datetime.fromtimestamp(T0 + 60, UTC),
        "message": "second\n\nwith a body\n",
        "tree": git(repo, "rev-parse", "main^{tree}"),
        "parents": (first,),
        "is_intact": True,
    }
    assert found[first]["parents"] == ()


def test_a_merge_has_its_parents_in_order_and_a_detached_head_leads_to_commits(repo):
    git(repo, "merge", "--quiet", "--no-ff", "--message=merged", "topic")
    merge = git(repo, "rev-parse", "HEAD")
    assert rows(state(repo), "commit")[merge]["parents"] == tuple(
        git(repo, "rev-parse", "HEAD^1", "HEAD^2").split()
    )
    git(repo, "switch", "--quiet", "--detach")
    lonely = committed(repo, "on no branch")
    found = state(repo)
    assert lonely in rows(found, "commit")
    assert rows(found, "repository")["."]["head"] == lonely


def test_annotated_tags_are_read_through_tags_of_tags(repo):
    git(repo, "tag", "--annotate", "--message=outer", "v1-outer", "v1")
    inner, outer = git(repo, "rev-parse", "v1", "v1-outer").split()
    found = state(repo)
    tags = rows(found, "tag")
    assert tags[outer] == {
        "id": outer,
        "name": "v1-outer",
        "target": inner,
        "tagger_name": "Bob",
        "tagger_email": "bob@example.org",
        "tagged_at": datetime.fromtimestamp(T0 + 60, UTC),
        "message": "outer\n",
    }
    assert tags[inner]["target"] == git(repo, "rev-parse", "main")
    assert rows(found, "ref")["refs/tags/v1-outer"]["commit"] == git(repo, "rev-parse", "main")


def test_files_of_each_branch_have_mode_blob_size_digest_and_text(repo):
    write(repo, "run.sh", "#!/bin/sh\n").chmod(0o755)
    (repo / "link").symlink_to("../outside")
    write(repo, "big.txt", "x" * 70_000)
    write(repo, "binary", b"\xff\xfe\x00")
    committed(repo, "more kinds")
    found = rows(state(repo), "file")
    assert [path for branch, path in found if branch == "topic"] == [
        "README",
        "notes.txt",
        "src/app.py",
    ]
    assert found["main", "README"] == {
        "branch": "main",
        "path": "README",
        "mode": "100644",
        "blob": git(repo, "rev-parse", "main:README"),
        "size": 8,
        "digest": hashlib.sha256(b"read me\n").hexdigest(),
        "text": "read me\n",
    }
    assert found["main", "run.sh"]["mode"] == "100755"
    assert found["main", "link"]["mode"] == "120000"
    assert found["main", "link"]["text"] == "../outside"
    assert found["main", "big.txt"]["text"] is None
    assert found["main", "big.txt"]["size"] == 70_000
    assert found["main", "binary"]["text"] is None


def test_a_submodule_is_an_entry_with_the_commit_it_names(repo):
    oid = "1" * 40
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{oid},lib")
    git(repo, "commit", "--quiet", "--message=a submodule")
    found = state(repo)
    entry = rows(found, "file")["main", "lib"]
    assert (entry["mode"], entry["blob"], entry["size"]) == ("160000", oid, None)
    assert coverage(found) == {}


def test_settings_are_what_git_lists_and_includes_are_not_followed(repo):
    write(repo, "other.cfg", "[user]\n\tname = Mallory\n")
    write(
        repo,
        ".git/config",
        b"\xef\xbb\xbf[core]\n\tbare = false\r\n\tRepositoryFormatVersion=0\n[Include]\n"
        b'path = ../other.cfg\n[remote "a\\"b C"] url = x ; comment\nfetch = 1\n\tfetch = 2 # two\n'
        b'[alias]\n\tx = "!f() { echo \\"a;b\\"; }; f" \n\tcont = one \\\n  two  \n[flag]\n\ton\n'
        b'[Old.Sub]\nkey = "  spaced " out \n\tempty =\n',
    )
    listed = git(repo, "config", "--no-includes", "--list", "--null", "--file", ".git/config")
    expected = [tuple(e.partition("\n")[::2]) for e in listed.split("\0") if e]
    found = rows(state(repo), "config")
    assert sorted((r["name"], r["value"] or "") for r in found.values()) == sorted(expected)
    assert found["config", "flag.on", 0]["value"] is None
    assert found["config", "old.sub.empty", 0]["value"] == ""
    assert found["config", 'remote.a"b C.fetch', 1]["value"] == "2"
    assert "included settings" in rows(state(repo), "repository")["."]["oddities"]


def test_the_index_shows_stages_modes_and_the_flags_that_hide_changes(repo):
    git(repo, "update-index", "--assume-unchanged", "README")
    git(repo, "update-index", "--skip-worktree", "src/app.py")
    write(repo, "later", "")
    git(repo, "add", "--intent-to-add", "later")
    found = rows(state(repo), "index_entry")
    assert found["README", 0]["is_assumed_unchanged"]
    assert not found["README", 0]["is_skipped_in_worktree"]
    assert found["src/app.py", 0]["is_skipped_in_worktree"]
    assert found["later", 0]["is_intent_to_add"]
    assert found["README", 0]["blob"] == git(repo, "rev-parse", "main:README")


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_version_of_the_index_reads_as_git_lists_it(repo, version):
    for number in range(30):
        write(repo, f"deep/er/{'x' * number}/file-{number}", "x")
    committed(repo, "many")
    git(repo, "switch", "--quiet", "-c", "other")
    write(repo, "README", "theirs")
    committed(repo, "theirs")
    git(repo, "switch", "--quiet", "main")
    write(repo, "README", "ours")
    committed(repo, "ours")
    git(repo, "merge", "other", check=False)
    git(repo, "update-index", f"--index-version={version}")
    listed = [line.split("\t") for line in git(repo, "ls-files", "--stage").splitlines()]
    found = rows(state(repo), "index_entry")
    assert [(f"{r['mode']} {r['blob']} {r['stage']}", r["path"]) for r in found.values()] == [
        (about, path) for about, path in listed
    ]
    assert {stage for path, stage in found if path == "README"} == {1, 2, 3}


def test_hooks_and_administrative_files_are_entries_with_digests(repo):
    write(repo, ".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n").chmod(0o755)
    write(repo, ".git/info/exclude", "*.log\n")
    write(repo, ".git/worktrees/w/HEAD", "ref: refs/heads/w\n")
    git(repo, "stash", "--quiet", check=False)
    write(repo, "README", "stashed")
    git(repo, "stash", "--quiet")
    found = state(repo)
    hook = rows(found, "hook")["pre-commit"]
    assert (hook["mode"], hook["text"]) == ("0755", "#!/bin/sh\nexit 1\n")
    admin = rows(found, "admin_file")
    assert admin["info/exclude"]["text"] == "*.log\n"
    listed = ["ORIG_HEAD", "info/exclude", "logs/refs/stash", "worktrees/w/HEAD"]
    assert list(admin) == listed


def test_the_work_tree_has_every_file_tracked_or_not_with_its_permissions(repo):
    write(repo, ".gitignore", "ignored\n")
    write(repo, "ignored", "i").chmod(0o600)
    write(repo, "nested/.git/config", "[core]\n")
    (repo / "empty/er").mkdir(parents=True)
    (repo / "away").symlink_to("/etc/passwd")
    found = rows(state(repo), "work_file")
    assert list(found) == [
        ".gitignore",
        "README",
        "away",
        "empty/er",
        "ignored",
        "nested/.git/config",
        "src/app.py",
    ]
    assert found["ignored"]["mode"] == "0600"
    assert found["away"]["kind"] == "link"
    assert found["away"]["target"] == "/etc/passwd"
    assert found["away"]["digest"] is None
    assert found["empty/er"]["kind"] == "directory"


def test_a_bare_repository_has_neither_index_nor_work_tree(repo, tmp_path):
    git(tmp_path, "clone", "--quiet", "--bare", "--template=", str(repo), "bare.git")
    found = state(tmp_path / "bare.git")
    assert coverage(found) == {}
    assert rows(found, "repository")["."]["is_bare"]
    assert rows(found, "work_file") == {}
    assert rows(found, "index_entry") == {}
    assert rows(found, "commit") == rows(state(repo), "commit")
    assert rows(found, "file") == rows(state(repo), "file")


def test_an_empty_repository_is_known_to_be_empty(tmp_path):
    path = tmp_path / "new"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=trunk", "--template=")
    found = state(path)
    assert coverage(found) == {}
    assert rows(found, "ref") == {}
    assert rows(found, "repository")["."]["head"] == "refs/heads/trunk"


def test_names_and_texts_that_are_not_utf8_are_kept_as_their_bytes(repo):
    odd = bytes(repo) + b"/odd-\xff\xfe"
    Path(odd.decode("utf-8", "surrogateescape")).write_bytes(b"\xff")
    git(repo, "-c", "i18n.commitEncoding=latin1", "commit", "--quiet", "--allow-empty", "-F", "-",
        given=b"caf\xe9\n")  # fmt: skip
    git(repo, "add", "--all")
    committed(repo, "odd name")
    write(repo, ".git/refs/heads/x", git(repo, "rev-parse", "main") + "\n").rename(
        (bytes(repo) + b"/.git/refs/heads/\xe9").decode("utf-8", "surrogateescape")
    )
    found = state(repo)
    assert coverage(found) == {}
    assert b"odd-\xff\xfe" in rows(found, "work_file")
    assert (b"odd-\xff\xfe", 0) in rows(found, "index_entry")
    assert ("main", b"odd-\xff\xfe") in rows(found, "file")
    assert b"refs/heads/\xe9" in rows(found, "ref")
    assert b"caf\xe9\n" in {row["message"] for row in rows(found, "commit").values()}
    assert deltas(found, state(repo, found)) == ()


# What a reading is


def test_packed_and_loose_read_the_same_and_so_does_libgit2(repo):
    for number in range(60):
        write(repo, "src/app.py", "line\n" * 300 + f"{number}\n")
        committed(repo, f"step {number}")
    loose = state(repo)
    git(repo, "gc", "--quiet", "--aggressive")
    assert not list((repo / ".git/objects").glob("[0-9a-f][0-9a-f]"))
    packed = state(repo, loose)
    for name in ("commit", "tag", "ref", "file", "index_entry", "work_file"):
        assert rows(packed, name) == rows(loose, name)
    oracle = pygit2.Repository(repo)
    walk = oracle.walk(oracle.head.target)
    for name in oracle.references:
        walk.push(oracle.references[name].peel(pygit2.Commit).id)
    expected = {str(c.id): (c.message, str(c.tree_id), c.author.time) for c in walk}
    assert expected == {
        oid: (row["message"], row["tree"], int(row["authored_at"].timestamp()))
        for oid, row in rows(packed, "commit").items()
    }


def test_a_state_diffed_with_itself_is_empty(repo):
    before = state(repo)
    after = state(repo, before)
    assert deltas(before, after) == ()
    assert doubts(before, after) == set()
    assert before.digest() == after.digest()


def test_reading_changes_nothing_in_the_repository(repo):
    git(repo, "gc", "--quiet")
    write(repo, "README", "changed")
    before = files_of(repo)
    state(repo)
    assert files_of(repo) == before


def test_a_commit_shows_as_its_deltas_and_nothing_else(repo):
    before = state(repo)
    write(repo, "README", "read me twice\n")
    oid = committed(repo, "fourth")
    found = {(d.op, d.type, d.key, d.path) for d in deltas(before, state(repo, before))}
    branch = ("refs/heads/main",)
    blob = ("main", "README")
    assert found == {
        (Op.CREATE, "git.commit", (oid,), ""),
        (Op.UPDATE, "git.ref", branch, "target"),
        (Op.UPDATE, "git.ref", branch, "commit"),
        *((Op.UPDATE, "git.file", blob, f) for f in ("blob", "size", "digest", "text")),
        (Op.UPDATE, "git.index_entry", ("README", 0), "blob"),
        *((Op.UPDATE, "git.work_file", ("README",), f) for f in ("size", "digest", "text")),
    }


def test_contracts_navigate_the_types_by_key_and_along_references(repo):
    before = capture(repo)
    write(repo, "README", "read me twice\n")
    committed(repo, "fix the readme")
    after = capture(repo, before.state)
    body = """
require:
  - id: one-commit
    create: git.commit
    where: before.git.ref["refs/heads/main"].target in it.parents
    that: all(c.message == "fix the readme\\n" for c in them)
  - id: moved
    update: git.ref
    where: it.name == "refs/heads/main"
    that: after.git.ref["refs/heads/main"].commit.author_email == "ada@example.org"
  - id: told
    update: git.file
    where: it.path == "README"
    fields: [text, digest]
    that: any(f.branch == "main" and f.text == "read me twice\\n" for f in after.git.file)
allow:
  - id: files
    update: git.file
    where: it.path == "README" and it.branch == "main"
  - id: tree
    any: [git.index_entry, git.work_file]
    where: it.path == "README"
forbid:
  - {id: hooks, any: [git.hook, git.config, git.admin_file]}
  - {id: tags, delete: git.tag}
"""
    found = judged(
        body,
        Capture((before,)),
        Capture((after,)),
        noop=False,
    )
    assert found.verdict is MATCH


def test_the_schema_may_be_refined_to_names_of_a_pack(repo):
    def refined(schema):
        ref = schema.by_name["git.ref"]
        named = replace(
            ref,
            name="branch",
            table="git.ref",
            fields=tuple(
                replace(f, name="tip", column="target") if f.name == "target" else f
                for f in ref.fields
            ),
        )
        return replace(schema, types=(named,), sources=(("repo", ("branch",)),))

    found = state(repo, refined=refined)
    assert list(found.tables) == ["branch"]
    ((_, row),) = [p for p in found.tables["branch"].rows() if p[0] == ("refs/heads/main",)]
    assert row["tip"] == git(repo, "rev-parse", "main")
    assert "target" not in row


def test_two_repositories_are_told_apart_by_their_prefix(repo):
    found = state(repo, prefix="origin")
    assert rows(found, "ref", "origin").keys() == rows(state(repo), "ref").keys()
    assert found.schema.by_name["origin.ref"].by_name["commit"].reference == "origin.commit"


def test_a_folder_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(SourceUnavailable, match="nowhere is not there"):
        GitSource("repo", tmp_path / "nowhere").read(MemoryChunks(), clock, None)


def test_an_index_in_two_files_has_the_entries_of_one(repo):
    git(repo, "update-index", "--split-index")
    (repo / "README").unlink()
    write(repo, "src/app.py", "another\n")
    write(repo, "new.txt", "new\n")
    git(repo, "add", "--all")
    split = rows(state(repo), "index_entry")
    git(repo, "update-index", "--no-split-index")
    assert split == rows(state(repo), "index_entry")
    assert {path for path, _ in split} == {"new.txt", "src/app.py"}


def test_settings_that_move_are_a_change_and_those_around_them_none(repo):
    git(repo, "config", "remote.a.url", "x")
    git(repo, "config", "remote.b.url", "y")
    before = state(repo)
    git(repo, "config", "core.added", "1")
    git(repo, "config", "--remove-section", "remote.a")
    found = {(d.op.value, d.key[1]) for d in deltas(before, state(repo, before))}
    assert found == {("create", "core.added"), ("delete", "remote.a.url")}
    config = repo / ".git/config"
    start, _, end = config.read_text().partition('[remote "b"]')
    config.write_text(f'[remote "b"]{end}{start}')
    moved = {(d.key[1], d.path) for d in deltas(before, state(repo, before)) if d.path}
    assert moved == {("remote.b.url", "place")}


@given(st.lists(st.integers(0, 9), max_size=8))
def test_the_longest_part_in_order_is_kept(values):
    kept = longest_in_order(list(enumerate(values)))
    chosen = [kept[place] for place in sorted(kept)]
    assert chosen == sorted(chosen)
    assert all(values[place] == value for place, value in kept.items())
    longest = max(
        sum(mask >> n & 1 for n in range(len(values)))
        for mask in range(1 << len(values))
        if (part := [v for n, v in enumerate(values) if mask >> n & 1]) == sorted(part)
    )
    assert len(kept) == longest
