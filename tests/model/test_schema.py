"""Entity types are looked up by their hash, and cross processes."""

import pickle
from dataclasses import replace

from statediff.model.schema import EntityType, Field, Kind


def test_a_type_that_was_looked_up_crosses_processes_without_its_hash() -> None:
    # Another process hashes texts in another way.
    one = EntityType("order", ("id",), (Field("id", Kind.INT), Field("state", Kind.TEXT)))
    known = {one: 1}
    other = pickle.loads(pickle.dumps(one))
    assert not [name for name in vars(other) if "hash" in name]
    assert known[other] == 1
    assert replace(one, outside="no work") not in known
