"""A database of a module's own `DDL` and `SEED`, which runs for all its tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from statediff.packs import PackSource
from statediff.systems.base.protocol import System


@pytest.fixture(scope="module")
def system(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    from statediff_postgres.sandbox import PostgresSystem  # noqa: PLC0415 - needs psycopg

    folder = tmp_path_factory.mktemp("pack")
    files = {"ddl": folder / "ddl.sql", "seed": folder / "seed.sql"}
    files["ddl"].write_text(request.module.DDL)
    files["seed"].write_text(request.module.SEED)
    made = PostgresSystem(PackSource("store", "postgres", None, files), (), folder / "own")
    made.start()
    yield made
    made.stop()
