"""Groups of options: the parser sees their fields, and the command gets the groups."""

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import typer
from typer.testing import CliRunner

from statediff.cli.options import JsonFlag, with_options


@dataclass(frozen=True, kw_only=True)
class Inner:
    price: Annotated[str | None, typer.Option("--price", help="Of one.")] = None


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: Annotated[str, typer.Option("--name", help="Whose.")]
    inner: Inner
    count: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 2


given = []


def command(
    first: Annotated[str, typer.Argument(help="Before.")],
    outer: Outer,
    last: Annotated[list[str] | None, typer.Option("--last", help="After.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Do it."""
    given.append((first, outer, last, as_json))


def app() -> typer.Typer:
    made = typer.Typer(rich_markup_mode=None, add_completion=False)
    made.command()(with_options(command))
    return made


def test_the_fields_of_groups_stand_where_the_groups_do() -> None:
    names = list(signature(with_options(command)).parameters)
    assert names == ["first", "name", "price", "count", "last", "as_json"]


def test_the_command_gets_the_groups_with_what_was_given_and_the_defaults() -> None:
    given.clear()
    done = CliRunner().invoke(app(), ["a", "--name", "n", "--price", "3", "--last", "x"])
    assert done.exit_code == 0, done.output
    assert given == [("a", Outer(name="n", inner=Inner(price="3"), count=2), ["x"], False)]


def test_a_field_without_a_default_is_a_required_option() -> None:
    done = CliRunner().invoke(app(), ["a"])
    assert done.exit_code == 2
    assert "--name" in done.output


def test_help_is_that_of_a_command_with_the_options_themselves() -> None:
    def flat(
        first: Annotated[str, typer.Argument(help="Before.")],
        name: Annotated[str, typer.Option("--name", help="Whose.")],
        price: Annotated[str | None, typer.Option("--price", help="Of one.")] = None,
        count: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 2,
        last: Annotated[list[str] | None, typer.Option("--last", help="After.")] = None,
        as_json: JsonFlag = False,
    ) -> None:
        """Do it."""

    plain = typer.Typer(rich_markup_mode=None, add_completion=False)
    plain.command("command")(flat)
    asked = [CliRunner().invoke(each, ["--help"]) for each in (app(), plain)]
    assert asked[0].output == asked[1].output
    assert "--price" in asked[0].output
