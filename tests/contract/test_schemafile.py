"""State schema files laid over catalogues: names, references, overrides, and every clash."""

import contextlib
import json
import time

import pytest
from hypothesis import given

from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import load_schema_file, parse_schema_file
from statediff.errors import ContractError, UsageError
from statediff.evidence.documents import schema_document, schema_from
from statediff.model.schema import EntityType, Field, Kind, Schema
from tests.contract.mutants import damaged

CATALOGUE = Schema(
    "shop-db",
    "0",
    (
        EntityType(
            "customers",
            ("id",),
            (
                Field("id", Kind.INT, is_nullable=False),
                Field("email", Kind.TEXT, is_nullable=False),
            ),
        ),
        EntityType(
            "log",
            (),
            (Field("order_id", Kind.INT, reference="orders"), Field("at", Kind.LOCAL_TIMESTAMP)),
        ),
        EntityType(
            "orders",
            ("id",),
            (
                Field("id", Kind.INT, is_nullable=False),
                Field("customer_id", Kind.INT, reference="customers"),
                Field("placed_at", Kind.TEXT),
                Field("archived_at", Kind.TEXT),
                Field("payment_id", Kind.INT),
            ),
        ),
        EntityType("payment", ("id",), (Field("id", Kind.INT, is_nullable=False),)),
    ),
    (("shop-db", ("customers", "log", "orders", "payment")),),
)

FILE = """\
schema: shop
version: 1.2.0
entities:
  order:
    table: orders
    source: shop-db
    key: [id]
    association: false
    keys_reused: true
    deleted_when: archived_at
    made_by: system
    fields:
      customer: {column: customer_id, to: customer}
      placed_at: {type: timestamp, zone: UTC}
      paid_with: {column: payment_id, to: payment, immutable: true, nullable: false}
  customer: {table: customers}
  log: {fields: {at: {zone: Europe/Paris}}}
  message: {source: outbox, key: none}
  coupon: {optional: true}
"""
HEAD = "schema: shop\nversion: 1.0.0\nentities:\n"


def refined(text: str = FILE, source: str = "shop-db") -> Schema:
    return refine(parse_schema_file(text.encode(), "s.yaml"), source)(CATALOGUE)


def problems(entities: str) -> list[tuple[str, int, int]]:
    with pytest.raises(ContractError) as caught:
        refined(HEAD + entities)
    return [(p.code, p.line, p.column) for p in caught.value.problems]


def test_tables_and_fields_get_logical_names_and_keep_the_sources_own():
    schema = refined()
    assert (schema.name, schema.version) == ("shop", "1.2.0")
    assert [t.name for t in schema.types] == ["customer", "log", "order", "payment"]
    assert schema.sources == (("shop-db", ("customer", "log", "order", "payment")),)
    order = schema.by_name["order"]
    assert (order.table, order.key, order.deleted_when) == ("orders", ("id",), "archived_at")
    assert (order.keys_are_reused, order.is_association, order.made_by) == (True, False, "system")
    assert [(f.name, f.source_column) for f in order.fields] == [
        ("id", "id"),
        ("customer", "customer_id"),
        ("placed_at", "placed_at"),
        ("archived_at", "archived_at"),
        ("paid_with", "payment_id"),
    ]
    assert order.by_name["placed_at"].kind is Kind.TIMESTAMP
    assert order.by_name["placed_at"].zone == "UTC"
    paid_with = order.by_name["paid_with"]
    assert (paid_with.reference, paid_with.is_immutable, paid_with.is_nullable) == (
        "payment",
        True,
        False,
    )


def test_references_are_rewritten_everywhere_and_unlisted_things_stay():
    schema = refined()
    assert schema.by_name["order"].by_name["customer"].reference == "customer"
    assert schema.by_name["log"].by_name["order_id"].reference == "order"
    assert schema.by_name["payment"] == CATALOGUE.by_name["payment"]
    only_one = refined(HEAD + "  customer: {table: customers}\n")
    assert only_one.by_name["orders"].by_name["customer_id"].reference == "customer"
    assert len(only_one.types) == 4


def test_where_values_are_told_by_digest_is_declared_and_survives_a_bundle():
    schema = refined(HEAD + "  customers: {fields: {email: {digest_above_bytes: 64}}}\n")
    assert schema.by_name["customers"].by_name["email"].digest_above_bytes == 64
    document = schema_document(schema)
    assert schema_from(document) == schema
    assert "digest_above_bytes" not in json.dumps(schema_document(CATALOGUE))


def test_a_declared_zone_makes_a_local_timestamp_an_instant():
    at = refined().by_name["log"].by_name["at"]
    assert (at.kind, at.zone) == (Kind.TIMESTAMP, "Europe/Paris")


def test_keys_can_be_set_renamed_and_taken_away():
    schema = refined(
        HEAD + "  log: {key: [order_id, at]}\n  payment: {key: none}\n"
        "  orders: {fields: {number: {column: id}}}\n"
    )
    assert schema.by_name["log"].key == ("order_id", "at")
    assert schema.by_name["payment"].is_keyless
    assert schema.by_name["orders"].key == ("number",)


def test_names_can_be_exchanged():
    schema = refined(
        HEAD + "  customers: {fields: {id: {column: email}, email: {column: id}}}\n"
        "  log: {table: payment}\n  payment: {table: log}\n"
    )
    assert schema.by_name["customers"].key == ("email",)
    assert schema.by_name["payment"].is_keyless
    assert schema.by_name["payment"].by_name["order_id"].reference == "orders"


def test_an_optional_column_is_a_field_whether_it_is_there_or_not():
    added = refined(HEAD + "  log: {fields: {why: {column: reason, type: text, optional: true}}}\n")
    assert [f.name for f in added.by_name["log"].fields] == ["order_id", "at", "why"]
    assert added.by_name["log"].by_name["why"] == Field("why", Kind.TEXT, column="reason")
    there = refined(HEAD + "  log: {fields: {at: {type: text, optional: true}}}\n")
    assert [f.name for f in there.by_name["log"].fields] == ["order_id", "at"]
    assert there.by_name["log"].by_name["at"].kind is Kind.TEXT


def test_entities_of_another_source_are_skipped_but_can_be_referred_to():
    text = HEAD + "  orders: {fields: {payment_id: {to: message}}}\n  message: {source: outbox}\n"
    assert refined(text).by_name["orders"].by_name["payment_id"].reference == "message"
    with pytest.raises(ContractError, match="table of outbox, found none named `message`"):
        refined(
            text.replace("  orders", "  orders_: {optional: true}\n  o2").replace(
                "o2: {", "o2: {optional: true, "
            ),
            "outbox",
        )


@pytest.mark.parametrize(
    ("entities", "expected"),
    [
        ("  order: {table: orderz}\n", [("unknown-table", 4, 18)]),
        ("  order:\n    key: [id]\n", [("unknown-table", 4, 3)]),
        ("  a: {table: log}\n  b: {table: log}\n", [("table-twice", 5, 14)]),
        ("  payment: {table: log}\n", [("name-clash", 4, 3)]),
        ("  log: {fields: {x: {column: att}}}\n", [("unknown-column", 4, 30)]),
        ("  log:\n    fields:\n      att: {type: date}\n", [("unknown-column", 6, 7)]),
        ("  log: {fields: {x: {column: at}, y: {column: at}}}\n", [("column-twice", 4, 47)]),
        ("  log: {fields: {order_id: {column: at}}}\n", [("name-clash", 4, 18)]),
        ("  log: {fields: {order_id: {to: nowhere}}}\n", [("unknown-type", 4, 33)]),
        (
            "  o: {table: orders}\n  log: {fields: {order_id: {to: orders}}}\n",
            [("unknown-type", 5, 33)],
        ),
        ("  log: {key: [order_id, moment]}\n", [("unknown-field", 4, 25)]),
        ("  log: {key: [at, at]}\n", [("duplicate-field", 4, 14)]),
        ("  log: {key: []}\n", [("invalid", 4, 14)]),
        ("  log:\n    key:\n", [("invalid", 5, 5)]),
        ("  log: {fields: {at: {zone: Mars/Olympus}}}\n", [("unknown-zone", 4, 29)]),
        ("  log: {fields: {at: {zone: America}}}\n", [("unknown-zone", 4, 29)]),
        ("  log: {fields: {at: {zone: ../../etc/passwd}}}\n", [("unknown-zone", 4, 29)]),
        ("  log: {fields: {order_id: {zone: UTC}}}\n", [("wrong-field", 4, 35)]),
        ("  log: {fields: {at: {type: time}}}\n", [("invalid", 4, 29)]),
        ("  log: {fields: {at: {tpye: date}}}\n", [("unknown-key", 4, 23)]),
        ("  log: {deleted_when: gone}\n", [("unknown-field", 4, 23)]),
        ("  customers: {deleted_when: email}\n", [("wrong-field", 4, 29)]),
        ("  log: {made_by: agent}\n", [("invalid", 4, 18)]),
        ("  log: {association: 'true'}\n", [("invalid", 4, 22)]),
        ("  db.role: {table: log}\n", [("reserved-name", 4, 3)]),
        ('  "a\\tb": {table: log}\n', [("hidden-character", 4, 3)]),
        (
            "  payment: {key: none}\n  orders: {fields: {payment_id: {to: payment}}}\n",
            [("wrong-key", 5, 38)],
        ),
        ("  customers: {key: [id, email]}\n", [("wrong-key", 4, 20)]),
        ("  log: {table: log}\n  log: {table: orders}\n", [("duplicate-key", 5, 3)]),
        ("  log: {fields: {x: {optional: true}}}\n", [("missing-type", 4, 32)]),
        (
            "  log: {fields: {at: {column: x, type: int, optional: true}}}\n",
            [("name-clash", 4, 18)],
        ),
        (
            "  log: {fields: {x: {type: int, optional: true}, y: {column: x}}}\n",
            [("column-twice", 4, 62)],
        ),
    ],
)
def test_what_contradicts_the_catalogue_or_itself_is_refused_where_it_stands(entities, expected):
    assert problems(entities) == expected


def test_the_file_is_read_from_disk_or_refused(tmp_path):
    path = tmp_path / "state.yaml"
    path.write_text(FILE)
    assert load_schema_file(path).content.schema_ == "shop"
    with pytest.raises(UsageError, match="found nothing"):
        load_schema_file(tmp_path / "none.yaml")


@given(damaged(FILE, "id", "log", "order", "customers", "\n  x: {table: log}\n"))
def test_a_mutated_schema_file_gives_a_schema_or_a_typed_error(text: str) -> None:
    started = time.process_time()
    with contextlib.suppress(ContractError):
        schema = refined(text)
        assert len(schema.by_name) == len(schema.types) == len(CATALOGUE.types)
        for entity_type in schema.types:
            assert len(entity_type.by_name) == len(entity_type.fields)
            assert set(entity_type.key) <= set(entity_type.by_name)
    assert time.process_time() - started < 1


def test_refining_leaves_the_catalogue_alone_and_is_repeatable():
    before = repr(CATALOGUE)
    assert refined() == refined()
    assert repr(CATALOGUE) == before
