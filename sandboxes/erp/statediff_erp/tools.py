"""Tools for an ERP on Tryton: records of its models, the buttons of its forms, its wizards.

What the account may not do, the server itself refuses. A date is written `{"date": "2026-03-31"}`
and a decimal `{"decimal": "5.10"}`, both ways; all else is plain JSON.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import Field

from statediff.model.trace import ActionClass
from statediff.systems.base.tool import Arguments, Tool, ToolError, tool_name
from statediff.systems.hosted.rest import Rest

MAX_RECORDS: Final = 200
Model = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9_.-]{1,99}$", description="A model, e.g. `account.invoice`."),
]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,99}$")]
Number = Annotated[int, Field(ge=0, le=2**53)]
Numbers = Annotated[list[Number], Field(min_length=1, max_length=MAX_RECORDS)]
Values = Annotated[dict[str, Any], Field(description="Field → value.")]
_RIGHTS: Final = ("res.", "ir.model.", "ir.rule")
"""How the names of models begin that say who may do what."""


class Erp:
    """The account that the URL names, `tryton+http://LOGIN:PASSWORD@HOST:PORT/DATABASE/`.

    Its JSON-RPC is bounded and read strictly, and no redirect is followed.
    """

    def __init__(self, url: str) -> None:
        self._rest = Rest(url.removeprefix("tryton+"), what="the ERP")
        self._context: dict[str, Any] | None = None

    @property
    def context(self) -> dict[str, Any]:
        """The server's context of the user, e.g. the company: calls take it as their last."""
        if self._context is None:
            found = self.call("model.res.user.get_preferences", True, {})
            self._context = dict(found) if isinstance(found, dict) else {}
        return self._context

    def call(self, method: str, *arguments: Any) -> Any:
        """The result; `ToolError` with what the server says where it does not do it."""
        body = {"id": 0, "method": method, "params": arguments}
        answer = self._rest.ask("POST", "rpc/", body)
        if isinstance(answer, dict) and "error" in answer:
            raise ToolError(f"the ERP refuses it: {answer['error']}")
        return answer.get("result") if isinstance(answer, dict) else answer


class Search(Arguments):
    """Which records, and which of their fields."""

    model: Model
    domain: list[Any] = Field(
        default_factory=list,
        max_length=100,
        description='Conditions that all hold, e.g. [["state", "=", "draft"]].',
    )
    fields: list[str] = Field(default_factory=list, max_length=100)
    most: int = Field(50, ge=1, le=MAX_RECORDS, description="Records at most, in order of id.")
    after: int = Field(0, ge=0, description="Records left out at the beginning.")


class New(Arguments):
    """A new record; fields that are left out get the server's defaults."""

    model: Model
    values: Values


class Changed(Arguments):
    """New values of some records."""

    model: Model
    records: Numbers
    values: Values


class Records(Arguments):
    """Some records."""

    model: Model
    records: Numbers


class Pressed(Records):
    """A button of the form of some records."""

    button: Name


class Run(Records):
    """A wizard over some records: what its form says, and the button that ends it."""

    wizard: Model
    state: Name
    form: Values


def erp_tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    """The six tools of an ERP; each call signs in as the account of the URL."""

    def tool(
        verb: str,
        text: str,
        arguments: type[Arguments],
        act: Callable[[Erp, Any], Any],
        kind: ActionClass,
    ) -> Tool[Any]:
        is_read = kind is ActionClass.READ
        return Tool(
            tool_name(source, verb),
            text,
            arguments,
            lambda taken: _shown(act(Erp(url), taken)),
            kind if is_read else lambda taken: _class_of(taken, kind),
            is_harmless=is_read,
        )

    return (
        tool("search_read", "Reads records of a model.", Search, _search, ActionClass.READ),
        tool("create", "Makes a record.", New, _create, ActionClass.CONDITIONAL_UPDATE),
        tool("write", "Changes records.", Changed, _write, ActionClass.REVERSIBLE_UPDATE),
        tool("delete", "Deletes records.", Records, _delete, ActionClass.IRREVERSIBLE_DELETION),
        tool(
            "press",
            "Presses a button of the form of records, e.g. `post` of `account.invoice`.",
            Pressed,
            _press,
            ActionClass.CONDITIONAL_UPDATE,
        ),
        tool(
            "run_wizard",
            "Runs a wizard over records, e.g. `account.move.cancel`, to its end.",
            Run,
            _run,
            ActionClass.CONDITIONAL_UPDATE,
        ),
    )


def _class_of(taken: Any, kind: ActionClass) -> ActionClass:
    return ActionClass.PERMISSION_CHANGE if taken.model.startswith(_RIGHTS) else kind


def _search(erp: Erp, asked: Search) -> Any:
    found = erp.call(
        f"model.{asked.model}.search_read",
        _meant(asked.domain),
        asked.after,
        asked.most + 1,
        [["id", "ASC"]],
        asked.fields,
        erp.context,
    )
    more = {"more": True} if len(found) > asked.most else {}
    return {"records": found[: asked.most], **more}


def _create(erp: Erp, asked: New) -> Any:
    made = erp.call(f"model.{asked.model}.create", [_meant(asked.values)], erp.context)
    return {"record": made[0]}


def _write(erp: Erp, asked: Changed) -> Any:
    values = _meant(asked.values)
    erp.call(f"model.{asked.model}.write", asked.records, values, erp.context)
    return {"written": asked.records}


def _delete(erp: Erp, asked: Records) -> Any:
    erp.call(f"model.{asked.model}.delete", asked.records, erp.context)
    return {"deleted": asked.records}


def _press(erp: Erp, asked: Pressed) -> Any:
    erp.call(f"model.{asked.model}.{asked.button}", asked.records, erp.context)
    return {"pressed": asked.button}


def _run(erp: Erp, asked: Run) -> Any:
    session, *_ = erp.call(f"wizard.{asked.wizard}.create", erp.context)
    context = {
        **erp.context,
        "active_model": asked.model,
        "active_id": asked.records[0],
        "active_ids": asked.records,
    }
    try:
        erp.call(
            f"wizard.{asked.wizard}.execute", session, _meant(asked.form), asked.state, context
        )
    finally:
        erp.call(f"wizard.{asked.wizard}.delete", session, erp.context)
    return {"run": asked.wizard}


def _meant(value: Any) -> Any:
    """The value as the server takes it."""
    if isinstance(value, list):
        return [_meant(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"decimal"}:
        return {"__class__": "Decimal", "decimal": str(value["decimal"])}
    if value.keys() == {"date"}:
        try:
            day = dt.date.fromisoformat(value["date"])
        except (TypeError, ValueError) as error:
            raise ToolError(f"expected a date, found {value['date']!r}") from error
        return {"__class__": "date", "year": day.year, "month": day.month, "day": day.day}
    return {name: _meant(each) for name, each in value.items()}


def _shown(value: Any) -> Any:
    """The value as the agent reads it."""
    if isinstance(value, list):
        return [_shown(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("__class__") == "Decimal":
        return {"decimal": value["decimal"]}
    if value.get("__class__") == "date":
        return {"date": dt.date(value["year"], value["month"], value["day"]).isoformat()}
    return {name: _shown(each) for name, each in value.items()}
