"""Whatever a run wrote, a console shows it as text: nothing steers, hides or reorders."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from statediff.evidence.canonical import write
from statediff.evidence.keys import generate, trust_entry
from statediff.evidence.package import Bundle, save
from statediff.evidence.seal import at_tier, redact, seal
from statediff.evidence.seal import save as save_sealed
from statediff.evidence.verify import STATE_ROOTS, UNBOUND, read_trust, verify
from tests.cli.conftest import Call
from tests.evidence.test_seal import SEED
from tests.growing_logs import NOON
from tests.judging import TIMELINE, item, run, user
from tests.reports.test_html_hostile import attacked

STEERS = "\x1b]0;pwned\x07\x1b[2J\x9b31m\x08\r"
HIDES = "\u202e\u2066\u200b\ufeff\u0000"
ATTACK = f"x{STEERS}{HIDES}[red]markup[/red]"
NEVER = {c for c in STEERS + HIDES if not c.isprintable()}
ALLOWED = {"\n", "\t"}


def plain() -> Bundle:
    """A trial that replays, its states full of attacks."""
    before = {"user": [user(1, name=ATTACK), user(2)], "item": [item(1, t=ATTACK, owner=1)]}
    after = {"user": [user(1, name=ATTACK[::-1])], "item": [item(1, t="y" + ATTACK, owner=1)]}
    body = "forbid:\n  - {id: no-users, delete: user}\nanswer: {schema: {n: int}}\n"
    return run(body, before, after, answer={"n": 2, ATTACK: ATTACK}, timeline=TIMELINE).bundle


def hostile(bundle: Bundle) -> Bundle:
    """The trial with an attack in every string that a run or a foreign signer can choose."""
    files = {name: data for name, data in bundle.files.items() if name != STATE_ROOTS}
    for name in ("trace.json", "answer.json", "fragments.json", "judgement.json", "trial.json",
                 "captures.json"):  # fmt: skip
        files[name] = write(attacked(bundle.document(name)))
    names = ("trial", "contract", "contract_version", "statediff", "kernel")
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    changed = {**dict.fromkeys(names, ATTACK), "files": digests, "format": UNBOUND}
    return Bundle({**bundle.manifest, **changed}, files)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Bundles, a run, sealed copies, keys."""
    found = plain()
    save(found, tmp_path / "plain" / "bundle")
    bad = hostile(found)
    save(bad, tmp_path / "r" / "trials" / "t" / "bundle")
    (tmp_path / "r" / "run.json").write_bytes(b'{"form":"statediff/run/1"}\n')
    key = generate(tmp_path / "eve")
    roles = ["evaluator", "reviewer"]
    entry: Any = trust_entry("Eve \u202e\u2066\u200b[red]", key.public, roles)
    trust = write({"format": "statediff/trust/1", "keys": [entry]})
    (tmp_path / "trust.json").write_bytes(trust)
    sealed = seal(bad, SEED, NOON, key.public, key.sign)
    save_sealed(sealed, tmp_path / "s.zip")
    public = redact(sealed, verify(sealed.files, read_trust(trust)), at_tier("public"))
    save_sealed(public, tmp_path / "p.zip")
    return tmp_path


COMMANDS = (
    ("show", "plain"), ("show", "r/trials/t"), ("replay", "plain"), ("replay", "r/trials/t"),
    ("export", "r", "--as", "markdown"), ("export", "r/trials/t", "--as", "junit"),
    ("export", "plain", "--as", "sarif"), ("report", "r"), ("report", "plain"),
    ("verify", "s.zip", "--trust", "trust.json"), ("verify", "p.zip", "--trust", "trust.json"),
    ("redact", "s.zip", "--trust", "trust.json", "--tier", "public", "--out", "o.zip"),
    ("report", "p.zip", "--trust", "trust.json"), ("show", "s.zip", "--trust", "trust.json"),
    ("log", "add", "verdicts.log", "r/trials/t"), ("log", "add", "verdicts.log", "plain"),
    ("adjudicate", "r", "--key", "eve", "--label", "correct"),
    ("agreement", "r", "--trust", "trust.json"),
    ("verify", "plain/bundle", "--trust", "trust.json"), ("show", ATTACK.replace("\0", "")),
)  # fmt: skip


@pytest.mark.usefixtures("there")
def test_no_command_lets_a_character_through_that_steers_or_hides(statediff: Call) -> None:
    for command in COMMANDS:
        said = statediff(*command)
        for stream in (said.out, said.err):
            found = {c for c in stream if not c.isprintable()} - ALLOWED
            assert not found & NEVER, (command, found)
        assert "fault of statediff" not in said.err, (command, said.err)


@pytest.mark.usefixtures("there")
def test_json_escapes_what_a_terminal_would_obey(statediff: Call) -> None:
    for command in COMMANDS:
        if command[0] == "export":  # which needs a file for that
            continue
        said = statediff(*command, "--json")
        assert not {c for c in said.out if ord(c) < 32 or 127 <= ord(c) < 160} - ALLOWED, command


def test_the_dossier_of_a_blind_reviewer_is_text_too(there: Path) -> None:
    from lab.tests.cli.test_adjudicating import at_a_terminal  # noqa: PLC0415

    shown = at_a_terminal(
        there, "correct\nfine\n", "adjudicate", "r/trials/t", "--key", "eve", "--blind"
    )
    assert not (NEVER - {"\r"}) & set(shown)  # a terminal ends its lines so
