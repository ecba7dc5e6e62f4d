"""A document that does not fit its model: every problem, in its author's words and place."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from statediff.contract.yaml.reader import read_document
from statediff.contract.yaml.shape import as_model, closest, did_you_mean, frozen
from statediff.errors import ContractError
from tests.golden import held


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


def test_what_does_not_fit_is_said_in_the_words_of_the_author(
    request: pytest.FixtureRequest,
) -> None:
    held(request, "unfit", lambda text: problems(text + "\n"))


def test_a_missing_key_is_named_unless_another_was_meant_for_it(
    request: pytest.FixtureRequest,
) -> None:
    held(request, "missing", lambda text: problems(text + "\n", Needed))


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
