"""A document that does not fit its model: every problem, in its author's words and place."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model, closest, did_you_mean, frozen
from statediff.errors import ContractError


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Box(Strict):
    size: Annotated[int, Field(ge=0, description="a whole number of at least 0")]
    wide: bool = False
    note: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> Box:
        if self.wide and self.size == 0:
            raise ValueError("nothing wide has no size")
        return self


class Order(Strict):
    name: Annotated[str, Field(min_length=1, max_length=80, description="a name")] = "x"
    text: str | None = None
    whole: int | None = None
    exact: Decimal | None = None
    flag: bool | None = None
    words: tuple[str, ...] | None = None
    counts: dict[str, int] | None = None
    pick: Literal["one", "two"] | None = None
    either: int | str | None = None
    texts: str | tuple[str, ...] | None = None
    box: Box | None = None
    boxes: tuple[Box, ...] = ()
    sized: int | Box | None = None
    named: dict[str, Box] | None = None
    letters: dict[Annotated[str, Field(pattern="^[a-z]+$", description="letters")], int] = {}
    options: dict[Literal["one", "two"], Annotated[bool, Field(description="yes or no")]] = {}
    maybe: Annotated[int | Literal["every"] | None, Field(description="a number or `every`")] = None
    nested: (
        Annotated[
            Annotated[int, Field(description="inner")]
            | Annotated[bool, Field(description="truth")],
            Field(gt=0),
        ]
        | None
    ) = None
    until: Annotated[str | None, Field(alias="from", description="where it begins")] = None
    blob: set[int] | None = None
    boxed: tuple[str, ...] | Box | None = None
    mapped: tuple[str, ...] | dict[str, bool] | None = None
    coded: int | dict[Annotated[str, Field(pattern="^[a-z]+$")], int] | None = None
    least: Annotated[int, Field(ge=1)] | None = None
    price: Annotated[int, "cents", Field(description="an amount")] | None = None
    tax: Annotated[int, "cents"] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Order:
        if self.name == "nothing":
            raise ValueError("says nothing")
        return self


class Needed(Strict):
    owner: Annotated[str, Field(description="who answers")]
    kind_: Annotated[int, Field(alias="kind")]
    box: Box


def problems(text: str, model: type[BaseModel] = Order) -> list[str]:
    with pytest.raises(ContractError) as caught:
        as_model(read_document(text.encode(), "f"), model)
    return [
        ("" if p.code == "invalid" else f"{p.code}: ")
        + f"{p.line}:{p.column}: {p.message}"
        + ("" if p.hint == "" else f" ({p.hint})")
        for p in caught.value.problems
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: 5", ['1:7: `name`: expected a name, found 5 (a whole number) (quote it: "5")']),
        ("name: 1.50", ['1:7: `name`: expected a name, found 1.50 (a number) (quote it: "1.50")']),
        (
            "name: true",
            ['1:7: `name`: expected a name, found true (true or false) (quote it: "true")'],
        ),
        (
            "name: 2026",
            ['1:7: `name`: expected a name, found 2026 (a whole number) (quote it: "2026")'],
        ),
        ("name: [a]", ["1:7: `name`: expected a name, found a list of 1"]),
        ("name: []", ["1:7: `name`: expected a name, found an empty list"]),
        ("name: {a: 1}", ["1:7: `name`: expected a name, found a mapping"]),
        ("name: {}", ["1:7: `name`: expected a name, found an empty mapping"]),
        ("name: nothing", ["1:1: says nothing"]),
        (
            "name: ~",
            ["1:7: `name`: expected a name, found nothing (give it a value or remove the key)"],
        ),
        ("name: ''", ["1:7: `name`: expected a name, found empty text"]),
        (
            "words: [~]",
            [
                (
                    "1:9: `words`, item 1: expected text, found nothing (give it a value or remove "
                    "the key)"
                )
            ],
        ),
        (
            "boxed: {size: x}",
            ["1:15: `size`: expected a whole number of at least 0, found the text `x`"],
        ),
        (
            "boxed: [5]",
            ['1:9: `boxed`, item 1: expected text, found 5 (a whole number) (quote it: "5")'],
        ),
        (
            "boxed: 5",
            [
                (
                    "1:8: `boxed`: expected a list or a mapping, found 5 (a whole number) (a list "
                    "has `- ` before each item)"
                )
            ],
        ),
        ("mapped: {a: 5}", ["1:13: `a`: expected true or false, found 5 (a whole number)"]),
        (
            "mapped: [5]",
            ['1:10: `mapped`, item 1: expected text, found 5 (a whole number) (quote it: "5")'],
        ),
        ("coded: {A: 1}", ["1:9: expected as a key text, found `A`"]),
        ("price: x", ["1:8: `price`: expected an amount, found the text `x`"]),
        ("tax: x", ["1:6: `tax`: expected a whole number, found the text `x`"]),
        (
            "box: {size: 1, note: }",
            [("1:16: `note`: expected text, found nothing (give it a value or remove the key)")],
        ),
        ("least: 0", ["1:8: `least`: expected a whole number, found 0 (a whole number)"]),
        ("least: x", ["1:8: `least`: expected a whole number, found the text `x`"]),
        ("lists: [[a]]", ["unknown-key: 1:1: unknown key `lists` (did you mean `least`?)"]),
        (
            "words: [[], {}]",
            [
                "1:9: `words`, item 1: expected text, found an empty list",
                "1:13: `words`, item 2: expected text, found an empty mapping",
            ],
        ),
        ("text: 5", ['1:7: `text`: expected text, found 5 (a whole number) (quote it: "5")']),
        (
            "whole: '5'",
            ["1:8: `whole`: expected a whole number, found the text `5` (remove the quotes)"],
        ),
        ("whole: five", ["1:8: `whole`: expected a whole number, found the text `five`"]),
        ("whole: 5.5", ["1:8: `whole`: expected a whole number, found 5.5 (a number)"]),
        ("whole: true", ["1:8: `whole`: expected a whole number, found true (true or false)"]),
        ("exact: x", ["1:8: `exact`: expected a number, found the text `x`"]),
        (
            "flag: yes",
            [
                (
                    "1:7: `flag`: expected true or false, found the text `yes` (write true or "
                    "false, without quotes)"
                )
            ],
        ),
        (
            "flag: No",
            [
                (
                    "1:7: `flag`: expected true or false, found the text `No` (write true or "
                    "false, without quotes)"
                )
            ],
        ),
        (
            "flag: 'on'",
            [
                (
                    "1:7: `flag`: expected true or false, found the text `on` (write true or "
                    "false, without quotes)"
                )
            ],
        ),
        (
            "flag: off",
            [
                (
                    "1:7: `flag`: expected true or false, found the text `off` (write true or "
                    "false, without quotes)"
                )
            ],
        ),
        (
            "flag: 'true'",
            [
                (
                    "1:7: `flag`: expected true or false, found the text `true` (write true or "
                    "false, without quotes)"
                )
            ],
        ),
        (
            "flag: 'False'",
            [
                (
                    "1:7: `flag`: expected true or false, found the text `False` (write true or "
                    "false, without quotes)"
                )
            ],
        ),
        ("flag: 1", ["1:7: `flag`: expected true or false, found 1 (a whole number)"]),
        ("flag: maybe", ["1:7: `flag`: expected true or false, found the text `maybe`"]),
        (
            "words: a",
            [
                (
                    "1:8: `words`: expected a list, found the text `a` (a list has `- ` before "
                    "each item)"
                )
            ],
        ),
        (
            "words: 5",
            [
                (
                    "1:8: `words`: expected a list, found 5 (a whole number) (a list has `- ` "
                    "before each item)"
                )
            ],
        ),
        ("words: {a: 1}", ["1:8: `words`: expected a list, found a mapping"]),
        (
            "words: [a, 5]",
            ['1:12: `words`, item 2: expected text, found 5 (a whole number) (quote it: "5")'],
        ),
        ("words: [a, [b]]", ["1:12: `words`, item 2: expected text, found a list of 1"]),
        ("counts: 5", ["1:9: `counts`: expected a mapping, found 5 (a whole number)"]),
        ("counts: []", ["1:9: `counts`: expected a mapping, found an empty list"]),
        ("counts: {a: x}", ["1:13: `a`: expected a whole number, found the text `x`"]),
        (
            "counts: {a: '7'}",
            ["1:13: `a`: expected a whole number, found the text `7` (remove the quotes)"],
        ),
        ("pick: three", ["1:7: `pick`: expected one of `one`, `two`, found the text `three`"]),
        (
            "either: 1.5",
            [
                (
                    "1:9: `either`: expected a whole number or text, found 1.5 (a number) (quote "
                    'it: "1.5")'
                )
            ],
        ),
        (
            "either: true",
            [
                (
                    "1:9: `either`: expected a whole number or text, found true (true or false) "
                    '(quote it: "true")'
                )
            ],
        ),
        ("either: []", ["1:9: `either`: expected a whole number or text, found an empty list"]),
        (
            "texts: 5",
            ['1:8: `texts`: expected text or a list, found 5 (a whole number) (quote it: "5")'],
        ),
        (
            "texts: [a, 5]",
            ['1:12: `texts`, item 2: expected text, found 5 (a whole number) (quote it: "5")'],
        ),
        ("texts: {a: 1}", ["1:8: `texts`: expected text or a list, found a mapping"]),
        ("box: 5", ["1:6: `box`: expected a mapping, found 5 (a whole number)"]),
        (
            "box: {}",
            ["missing-key: 1:6: missing key `size`: expected a whole number of at least 0"],
        ),
        (
            "box: {size: -1}",
            ["1:13: `size`: expected a whole number of at least 0, found -1 (a whole number)"],
        ),
        (
            "box: {size: x}",
            ["1:13: `size`: expected a whole number of at least 0, found the text `x`"],
        ),
        (
            "box: {size: 1, wide: 1}",
            ["1:22: `wide`: expected true or false, found 1 (a whole number)"],
        ),
        ("box: {size: 0, wide: true}", ["1:6: nothing wide has no size"]),
        ("box: {sise: 1}", ["unknown-key: 1:7: unknown key `sise` (did you mean `size`?)"]),
        (
            "box: {size: 1, with: true}",
            ["unknown-key: 1:16: unknown key `with` (known: note, size, wide)"],
        ),
        ("box: []", ["1:6: `box`: expected a mapping, found an empty list"]),
        ("boxes: {size: 1}", ["1:8: `boxes`: expected a list, found a mapping"]),
        (
            "boxes: [{size: 1}, {size: -1}]",
            ["1:27: `size`: expected a whole number of at least 0, found -1 (a whole number)"],
        ),
        ("boxes: [5]", ["1:9: `boxes`, item 1: expected a mapping, found 5 (a whole number)"]),
        ("boxes: [{size: 1}, {size: 0, wide: true}]", ["1:20: nothing wide has no size"]),
        ("sized: x", ["1:8: `sized`: expected a whole number or a mapping, found the text `x`"]),
        ("sized: []", ["1:8: `sized`: expected a whole number or a mapping, found an empty list"]),
        (
            "sized: {size: x}",
            ["1:15: `size`: expected a whole number of at least 0, found the text `x`"],
        ),
        ("sized: {sise: 5}", ["unknown-key: 1:9: unknown key `sise` (did you mean `size`?)"]),
        ("sized: {size: 0, wide: true}", ["1:8: nothing wide has no size"]),
        (
            "sized: -1.5",
            ["1:8: `sized`: expected a whole number or a mapping, found -1.5 (a number)"],
        ),
        (
            "named: {a: {size: 1}, b: {size: x}}",
            ["1:33: `size`: expected a whole number of at least 0, found the text `x`"],
        ),
        ("named: {a: 5}", ["1:12: `a`: expected a mapping, found 5 (a whole number)"]),
        ("letters: {A: 1}", ["1:11: expected as a key letters, found `A`"]),
        ("letters: {a: x}", ["1:14: `a`: expected a whole number, found the text `x`"]),
        (
            "letters: {A: x, b: y}",
            [
                "1:11: expected as a key letters, found `A`",
                "1:14: `A`: expected a whole number, found the text `x`",
                "1:20: `b`: expected a whole number, found the text `y`",
            ],
        ),
        ("options: {three: true}", ["1:11: expected as a key one of `one`, `two`, found `three`"]),
        ("options: {one: 1}", ["1:16: `one`: expected yes or no, found 1 (a whole number)"]),
        ("maybe: x", ["1:8: `maybe`: expected a number or `every`, found the text `x`"]),
        ("maybe: 1.5", ["1:8: `maybe`: expected a number or `every`, found 1.5 (a number)"]),
        ("nested: x", ["1:9: `nested`: expected inner or truth, found the text `x`"]),
        (
            "from: 5",
            ['1:7: `from`: expected where it begins, found 5 (a whole number) (quote it: "5")'],
        ),
        ("blob: 5", ["1:7: `blob`: expected a value, found 5 (a whole number)"]),
        ("blob: [x]", ["1:7: `blob`: expected a value, found a list of 1"]),
        (
            "text:",
            ["1:1: `text`: expected text, found nothing (give it a value or remove the key)"],
        ),
        (
            "box: {size: }",
            [
                (
                    "1:7: `size`: expected a whole number of at least 0, found nothing (give it a "
                    "value or remove the key)"
                )
            ],
        ),
        (
            "boxes: [{size: 1, wide: }]",
            [
                (
                    "1:19: `wide`: expected true or false, found nothing (give it a value or "
                    "remove the key)"
                )
            ],
        ),
        (
            "counts: {a: }",
            [
                (
                    "1:10: `a`: expected a whole number, found nothing (give it a value or remove "
                    "the key)"
                )
            ],
        ),
        ("textt: a", ["unknown-key: 1:1: unknown key `textt` (did you mean `text`?)"]),
        (
            "zzzzzz: 1",
            [
                (
                    "unknown-key: 1:1: unknown key `zzzzzz` (known: blob, box, boxed, boxes, "
                    "coded, counts, either, exact, flag, from, least, letters, mapped, maybe, "
                    "name, named, nested, options, pick, price, …)"
                )
            ],
        ),
        ("names: a", ["unknown-key: 1:1: unknown key `names` (did you mean `name`?)"]),
        (
            "name: 5\ntext: 5\nwhole: x",
            [
                '1:7: `name`: expected a name, found 5 (a whole number) (quote it: "5")',
                '2:7: `text`: expected text, found 5 (a whole number) (quote it: "5")',
                "3:8: `whole`: expected a whole number, found the text `x`",
            ],
        ),
        (
            "box:\n  sise: 1\n  wide: 5",
            [
                "unknown-key: 2:3: unknown key `sise` (did you mean `size`?)",
                "3:9: `wide`: expected true or false, found 5 (a whole number)",
            ],
        ),
    ],
)
def test_what_does_not_fit_is_said_in_the_words_of_the_author(
    text: str, expected: list[str]
) -> None:
    assert problems(text + "\n") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "owner: a\nkin: 1\nbox: {size: 1}",
            ["unknown-key: 2:1: unknown key `kin` (did you mean `kind`?)"],
        ),
        (
            "ownr: a\nbox: {}\n",
            [
                "missing-key: 1:1: missing key `kind`: expected a whole number",
                "unknown-key: 1:1: unknown key `ownr` (did you mean `owner`?)",
                "missing-key: 2:6: missing key `size`: expected a whole number of at least 0",
            ],
        ),
        (
            "kind: 1\n",
            [
                "missing-key: 1:1: missing key `box`: expected a mapping",
                "missing-key: 1:1: missing key `owner`: expected who answers",
            ],
        ),
        ("box: 5\nowner: a\nkind: 1", ["1:6: `box`: expected a mapping, found 5 (a whole number)"]),
    ],
)
def test_a_missing_key_is_named_unless_another_was_meant_for_it(
    text: str, expected: list[str]
) -> None:
    assert problems(text + "\n", Needed) == expected


def test_a_long_text_is_told_in_part() -> None:
    (whole,) = problems(f"pick: {'a' * 40}\n")
    assert whole.endswith(f"found the text `{'a' * 40}`")
    (part,) = problems(f"pick: {'a' * 41}\n")
    assert part.endswith(f"found the text `{'a' * 39}…` (41 characters)")


def test_what_fits_is_an_instance_with_tuples_for_lists() -> None:
    text = "words: [a, b]\nboxes: [{size: 1}]\nmapped: {a: true}\nfrom: x\n"
    found = as_model(read_document(text.encode(), "f"), Order)
    assert found == Order.model_validate(
        {"words": ("a", "b"), "boxes": ({"size": 1},), "mapped": {"a": True}, "from": "x"}
    )


def test_a_plain_value_is_frozen_at_every_depth() -> None:
    value: dict[str, Any] = {"a": [1, {"b": [[], "c"]}], "d": {}, "e": None}
    assert frozen(value) == {"a": (1, {"b": ((), "c")}), "d": {}, "e": None}
    assert frozen("ab") == "ab"


def test_at_most_two_hundred_problems_are_told() -> None:
    for item in ("5: x", "a: "):
        lines = "".join(f"  k{at}{item[1:]}\n" for at in range(201))
        assert len(problems(f"counts:\n{lines}")) == 200
    lines = "".join("  - {size: 1, wide: }\n" for _ in range(201))
    assert len(problems(f"boxes:\n{lines}")) == 200


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("requires", ("require", "forbid"), "require"),
        ("itm", ("items", "item", "time"), "item"),
        ("xyz", ("require", "forbid"), None),
        ("abcde", ("abcxy",), "abcxy"),
        ("abcde", ("abxyz",), None),
        ("a", (), None),
    ],
)
def test_the_known_name_that_was_probably_meant(
    name: str, known: tuple[str, ...], meant: str | None
) -> None:
    assert closest(name, known) == meant
    if meant is not None:
        assert did_you_mean(name, known) == f"did you mean `{meant}`?"


def test_where_no_known_name_is_near_some_are_listed() -> None:
    names = tuple(f"n{at:02}" for at in range(21))
    assert did_you_mean("x", ("b", "a")) == "known: a, b"
    assert did_you_mean("x", names[:20]) == "known: " + ", ".join(names[:20])
    assert did_you_mean("x", names[::-1]) == "known: " + ", ".join(names[:20]) + ", …"
    assert did_you_mean("x", ()) == ""
    # Only so much of a long name is looked at: 43 of 100 characters are near, of 101 they are not.
    assert did_you_mean("a" * 500, ("a" * 43,)) == f"did you mean `{'a' * 43}`?"
