import subprocess
import sys
from pathlib import Path

import pytest

from statediff.errors import UsageError
from statediff.packs import (
    contract_folder,
    contract_folders,
    read_pack,
    sandbox_names,
    sandbox_pack,
)

ROOT = Path(__file__).parent.parent
PACK = """\
sandbox: tiny
version: 1.0.0
about: A tiny pack.
real: [a file]
simulated: [the rest]
sources:
  db: {kind: sqlite, ddl: a.sql, seed: b.sql}
"""


def test_the_packs_and_their_tasks_are_found():
    assert "shop" in sandbox_names()
    names = [entry.name for entry in contract_folders()]
    assert names == sorted(names)
    assert "shop/refund-returned-order" in names
    assert all(entry.cases.is_file() for entry in contract_folders())


def test_a_pack_says_what_is_real_and_what_is_simulated():
    pack = sandbox_pack("shop")
    assert [(source.name, source.kind) for source in pack.sources] == [
        ("outbox", "smtp"),
        ("shop-db", "sqlite"),
    ]
    assert pack.real
    assert pack.simulated


@pytest.mark.parametrize("look_up", [sandbox_pack, contract_folder])
def test_an_unknown_name_is_answered_with_the_known_ones(look_up):
    with pytest.raises(UsageError, match="shop"):
        look_up("shpo")


def test_an_unknown_agent_is_answered_with_the_known_ones():
    with pytest.raises(UsageError, match="careful"):
        contract_folder("shop/refund-returned-order").agent("carefull")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("kind: sqlite, ", ""), "needs a `kind`"),
        (("kind: sqlite", "kind: sqlite, of: nothing"), "which is no system"),
        (("ddl: a.sql", "ddl: ../../etc/passwd"), "inside the pack"),
        (("ddl: a.sql", "ddl: /etc/passwd"), "inside the pack"),
        (("ddl: a.sql", "ddl: missing.sql"), "not there"),
        (("about: A tiny pack.", "about: 3"), "expected text under `about`"),
        (("version", "versoin"), "unknown key 'versoin'"),
        (("sources:", "sources: ["), "cannot be read"),
    ],
)
def test_a_pack_with_a_mistake_says_what_is_wrong(tmp_path, change, message):
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).touch()
    (tmp_path / "pack.yaml").write_text(PACK.replace(*change))
    with pytest.raises(UsageError, match=message):
        read_pack(tmp_path)


def test_the_seed_of_the_shop_is_what_its_generator_writes():
    script = ROOT / "fixtures" / "build_shop.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0
