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
from tests.tasks import packs_of_the_core

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
        (("kind: sqlite, ", ""), "missing key `kind`"),
        (("kind: sqlite", "kind: sqlite, of: nothing"), "names no system"),
        (("ddl: a.sql", "ddl: ../../etc/passwd"), "inside the pack"),
        (("ddl: a.sql", "ddl: /etc/passwd"), "inside the pack"),
        (("ddl: a.sql", "ddl: missing.sql"), "not there"),
        (("about: A tiny pack.", "about: 3"), "`about`: expected text"),
        (("version", "versoin"), "unknown key `versoin`"),
        (("sources:", "sources: ["), "pack.yaml:8:1"),
    ],
)
def test_a_pack_with_a_mistake_says_what_is_wrong(tmp_path, change, message):
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).touch()
    (tmp_path / "pack.yaml").write_text(PACK.replace(*change))
    with pytest.raises(UsageError, match=message):
        read_pack(tmp_path)


VARIANTS = """\
variants:
  server:
    real: [a server]
    sources:
      db: {kind: postgres, ddl: b.sql, seed: a.sql}
      more: {kind: smtp}
"""


@pytest.fixture
def varied(tmp_path):
    for name in ("a.sql", "b.sql"):
        (tmp_path / name).touch()
    (tmp_path / "pack.yaml").write_text(PACK + VARIANTS)
    return tmp_path


def test_a_variant_names_other_systems_under_the_names_of_the_packs(varied):
    pack = read_pack(varied, "server")
    assert [(source.name, source.kind) for source in pack.sources] == [
        ("db", "postgres"), ("more", "smtp"),
    ]  # fmt: skip
    assert pack.sources[0].files["ddl"] == varied / "b.sql"
    assert (pack.title, pack.variant) == ("tiny/server", "server")
    assert pack.real == ("a server",)
    assert pack.simulated == ("the rest",)


def test_without_a_word_the_variant_is_the_embedded_one(varied):
    pack = read_pack(varied)
    assert (pack.title, pack.variants) == ("tiny", ("embedded", "server"))
    assert [source.kind for source in pack.sources] == ["sqlite"]
    with pytest.raises(UsageError, match="tiny has no variant 'x'; there are: embedded, server"):
        read_pack(varied, "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("real: [a server]", "about: x"), "unknown key `about`"),
        (("kind: postgres", "of: more, kind: postgres"), ""),
        (("kind: postgres", "kind: postgres, of: nothing"), "names no system"),
        (
            ("variants:\n  server:", "variants:\n  server: 3\n  other:"),
            "`server`: expected a mapping",
        ),
        (
            ("      db: {kind: postgres, ddl: b.sql, seed: a.sql}", "      db:"),
            "`db`: expected a mapping",
        ),
        (("ddl: b.sql", "ddl: ../b.sql"), "inside the pack"),
        (("real: [a server]", "real: a server"), "`real`: expected a list of sentences"),
    ],
)
def test_a_variant_with_a_mistake_says_what_is_wrong(varied, change, message):
    assert change[0] in VARIANTS
    (varied / "pack.yaml").write_text(PACK + VARIANTS.replace(*change))
    if message:
        with pytest.raises(UsageError, match=message):
            read_pack(varied, "server")
    else:
        assert read_pack(varied, "server").sources[0].of == "more"


@pytest.mark.parametrize("name", packs_of_the_core())
def test_every_pack_of_the_core_has_a_variant(name):
    assert len(sandbox_pack(name).variants) > 1


@pytest.mark.parametrize("name", sandbox_names())
def test_every_variant_delivers_the_sources_of_the_embedded_one(name):
    embedded = sandbox_pack(name)
    for variant in embedded.variants[1:]:
        pack = sandbox_pack(name, variant)
        assert [s.name for s in pack.sources] == [s.name for s in embedded.sources]
        refined = [source.schema is not None for source in pack.sources]
        assert refined == [source.schema is not None for source in embedded.sources]
        assert [s.kind for s in pack.sources] != [s.kind for s in embedded.sources]
        assert pack.real != embedded.real


def test_the_seed_of_the_shop_is_what_its_generator_writes():
    script = ROOT / "fixtures" / "build_shop.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0


@pytest.mark.parametrize(
    ("folder", "name"),
    [("My desk", "My-desk"), ("Büro", "Buro"), ("桌", "sandbox"), ("-a.", "a"), ("app_2", "app_2")],
)
def test_a_sandbox_in_any_folder_has_a_name(tmp_path: Path, folder: str, name: str) -> None:
    place = tmp_path / folder
    place.mkdir()
    (place / "sandbox.yaml").write_text("sources: {db: {kind: sqlite, dump: a.sql}}\n")
    (place / "a.sql").write_text("CREATE TABLE t (id INTEGER PRIMARY KEY);")
    assert read_pack(place).name == name
