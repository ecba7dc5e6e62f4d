"""`keygen`, `sign`, `verify` and `redact` as people meet them, and sealed copies elsewhere."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def sealed(statediff: Any, files: Any) -> Path:
    """A folder with `key`, `trust.json`, the bundle `kept` and its sealed copy `sealed`."""
    states = ("--before", "a.json", "--after", "b.json")
    assert statediff("judge", "c.yaml", *states, "--out", "kept").code == 0
    assert statediff("keygen", "key", "--name", "Ada").code == 0
    assert statediff("sign", "kept", "--key", "key", "--out", "sealed").code == 0
    return Path(files.folder)


@pytest.mark.usefixtures("sealed")
def test_a_sealed_copy_is_valid_and_gives_its_verdict_again(statediff: Any) -> None:
    found = statediff("verify", "sealed", "--trust", "trust.json", "--json")
    assert found.code == 0
    assert (found.json["status"], found.json["signers"]) == ("VALID", ["Ada"])
    again = statediff("replay", "sealed", "--trust", "trust.json", "--json")
    assert (again.code, again.json["verdict"]) == (0, "MATCH")
    assert statediff("show", "sealed", "--trust", "trust.json").out.startswith("MATCH")


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize("tier", ["public", "reviewer"])
def test_a_redacted_copy_is_genuine_and_not_replayable(statediff: Any, tier: str) -> None:
    made = statediff(
        "redact", "sealed", "--tier", tier, "--trust", "trust.json", "--out", "r.zip", "--json"
    )
    assert made.json["disclosed"] < made.json["leaves"]
    found = statediff("verify", "r.zip", "--trust", "trust.json", "--json")
    assert (found.code, found.json["status"]) == (3, "NOT_REPLAYABLE_AT_TIER")
    again = statediff("replay", "r.zip", "--trust", "trust.json")
    assert again.code == 3
    assert "withholds" in again.err
    assert again.out.startswith("MATCH follows from")
    told = statediff("show", "r.zip", "--trust", "trust.json")
    assert (told.code, told.out.partition(" ")[0]) == (0, "MATCH")
    assert ("Changes: 1" in told.out) == (tier == "reviewer")


def test_a_changed_copy_is_invalid_everywhere(statediff: Any, sealed: Path) -> None:
    path = sealed / "sealed" / "leaves.json"
    path.write_bytes(path.read_bytes().replace(b"closed", b"opened"))
    found = statediff("verify", "sealed", "--trust", "trust.json", "--json")
    assert (found.code, found.json["status"]) == (4, "INVALID")
    for command in (("replay",), ("show",), ("redact", "--tier", "public", "--out", "x")):
        said = statediff(command[0], "sealed", "--trust", "trust.json", *command[1:])
        assert said.code == 4
        assert "INVALID" in said.err
    assert not (sealed / "x").exists()


def test_a_bundle_that_does_not_replay_is_not_signed(statediff: Any, sealed: Path) -> None:
    path = sealed / "kept" / "judgement.json"
    path.write_bytes(path.read_bytes().replace(b"MATCH", b"DIVERGE"))
    said = statediff("sign", "kept", "--key", "key", "--out", "lie")
    assert said.code == 4
    assert not (sealed / "lie").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("sign", "kept", "--key", "none", "--out", "x"), 2, "cannot be read"),
        (("sign", "kept", "--key", "c.yaml", "--out", "x"), 2, "chmod 600"),
        (("sign", "kept", "--key", "key", "--out", "sealed"), 4, "nothing is overwritten"),
        (("sign", "nowhere", "--key", "key", "--out", "x"), 2, "found nothing"),
        (("keygen", "key", "--name", "Bo"), 2, "never overwritten"),
        (("keygen", "other", "--name", "Ada"), 2, "already trusts"),
        (("verify", "nowhere", "--trust", "trust.json"), 2, "found nothing"),
        (("verify", "sealed", "--trust", "nowhere"), 2, "keygen"),
        (("verify", "sealed", "--trust", "a.json"), 2, "trust file"),
        (("verify", "kept", "--trust", "trust.json"), 4, "exactly"),
        (("verify", "c.yaml", "--trust", "trust.json"), 4, "not a zip"),
        (("replay", "sealed"), 2, "--trust"),
        (("replay", "kept", "--trust", "trust.json"), 2, "is not sealed"),
        (
            ("redact", "sealed", "--tier", "secret", "--trust", "trust.json", "--out", "x"),
            2,
            "tier",
        ),
    ],
)
def test_what_is_wrong_is_told(
    statediff: Any, sealed: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    said = statediff(*arguments)
    assert (said.code, said.out) == (code, "")
    assert told in said.err
    assert not (sealed / "other").exists(), "a key that nobody trusts is not left behind"


def test_only_whoever_made_the_key_can_read_it(sealed: Path) -> None:
    assert (sealed / "key").stat().st_mode & 0o777 == 0o600
    trust = json.loads((sealed / "trust.json").read_text())
    secret = (sealed / "key").read_text()
    assert trust["keys"][0]["key"] not in secret
    assert "PRIVATE" not in (sealed / "trust.json").read_text()


def test_an_auditors_copy_is_nobody_elses_to_read_and_a_public_one_is(
    sealed: Path, statediff: Any
) -> None:
    keys = ("--key", "key", "--out")
    assert statediff("sign", "kept", *keys, "copy.zip").code == 0
    for tier in ("auditor", "public"):
        given = ("--tier", tier, "--trust", "trust.json", "--out", f"{tier}.zip")
        assert statediff("redact", "sealed", *given).code == 0
    modes = {each.name: each.stat().st_mode & 0o077 for each in sealed.iterdir()}
    assert modes["sealed"] == modes["copy.zip"] == modes["auditor.zip"] == 0
    assert modes["public.zip"] & 0o044 == 0o044


@pytest.mark.slow
@pytest.mark.usefixtures("sealed")
def test_a_copy_replays_byte_for_byte_in_another_zone_locale_and_hash_seed(statediff: Any) -> None:
    commands = (
        ("verify", "sealed", "--trust", "trust.json", "--json"),
        ("replay", "sealed", "--trust", "trust.json", "--json"),
        ("show", "sealed", "--trust", "trust.json", "--json"),
    )
    places = (
        {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "2", "TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8"},
    )
    for command in commands:
        said = {statediff(*command, env=place).out for place in places}
        assert said == {statediff(*command).out}


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize("how", ["options", "policy"])
def test_a_genuine_copy_must_also_meet_what_is_demanded(
    statediff: Any, sealed: Path, how: str
) -> None:
    digest = hashlib.sha256((sealed / "c.yaml").read_bytes()).hexdigest()

    def verified(copy: str, **demands: object) -> Any:
        if how == "policy":
            lines = "".join(f"{name}: {value}\n" for name, value in demands.items())
            (sealed / "policy.yaml").write_text(lines)
            given = ["--policy", "policy.yaml"]
        else:
            given = [f"--{n.replace('_', '-')}={value}" for n, value in demands.items()]
        return statediff("verify", copy, "--trust", "trust.json", *given, "--json")

    met = verified("sealed", contract=digest, min_kernel=1, isolation="unknown")
    assert (met.code, met.json["status"], met.json["unmet"]) == (0, "VALID", [])
    for demand in (
        {"contract": digest[::-1]}, {"min_kernel": 10**6}, {"isolation": "container"},
        {"isolation": "namespaces"},
    ):  # fmt: skip
        found = verified("sealed", **demand)
        assert (found.code, found.json["status"], len(found.json["unmet"])) == (4, "UNMET", 1)
    statediff("redact", "sealed", "--tier", "public", "--trust", "trust.json", "--out", "p.zip")
    found = verified("p.zip", contract=digest, min_kernel=1, isolation="unknown")
    assert (found.code, found.json["status"], len(found.json["unmet"])) == (4, "UNMET", 2)
    for demand in ({"contract": "ab"}, {"min_kernel": 0}, {"isolation": "a b"}):
        assert verified("sealed", **demand).code == 2


def test_what_is_under_no_state_root_is_said_and_unmet_where_all_has_to_be(
    statediff: Any, sealed: Path
) -> None:
    (sealed / "policy.yaml").write_text("bound: true\n")
    statediff("redact", "sealed", "--tier", "public", "--trust", "trust.json", "--out", "p.zip")
    for copy, unmet in (("sealed", []), ("p.zip", ["under no state root: the states"])):
        for demand in (("--bound",), ("--policy", "policy.yaml")):
            found = statediff("verify", copy, "--trust", "trust.json", *demand, "--json")
            assert (found.json["unmet"], found.code) == (unmet, 4 if unmet else 0)


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize(
    "text",
    [
        "bound: false\n",
        "bound: 1\n",
        "",
        "min_kernels: 8\n",
        "min_kernel: true\n",
        "[]\n",
        "min_kernel: '8'\n",
    ],
)
def test_a_policy_that_demands_nothing_or_something_else_is_an_error(
    statediff: Any, sealed: Path, text: str
) -> None:
    (sealed / "policy.yaml").write_text(text)
    done = statediff("verify", "sealed", "--trust", "trust.json", "--policy", "policy.yaml")
    assert (done.code, done.out) == (2, "")


@pytest.mark.usefixtures("sealed")
def test_no_name_forges_a_line(statediff: Any, sealed: Path) -> None:
    forged = sealed / "sealed\nVALID  honest.zip"
    (sealed / "sealed").rename(forged)
    done = statediff("verify", forged.name, "--trust", "trust.json")
    assert done.out.splitlines()[0] == "VALID  sealed\\nVALID  honest.zip"
    (forged / "leaves.json").write_bytes(b"")
    done = statediff("verify", forged.name, "--trust", "trust.json")
    assert done.code == 4
    assert "\nVALID" not in done.err
    assert statediff("keygen", "k2", "--name", "Eve\nVALID").code == 2
    assert not (sealed / "k2").exists()
