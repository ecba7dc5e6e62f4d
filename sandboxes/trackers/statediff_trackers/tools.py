"""An issue tracker, by its REST interface and with the agent's account: Roundup or Redmine.

Both are spoken to in the same words. What the account may not do, the tracker itself refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Protocol

from pydantic import Field

from statediff.model.trace import ActionClass, Mark
from statediff.systems.base.tool import Arguments, Done, Tool, tool_name

Word = Annotated[str, Field(min_length=1, max_length=200)]
Number = Annotated[int, Field(ge=1, le=2**31)]
MAX_ISSUES: Final = 100


class Search(Arguments):
    """Which issues."""

    status: Word | None = Field(default=None, description="Only those with this status.")
    assignee: Word | None = Field(default=None, description="Only those of this login.")
    most: int = Field(50, ge=1, le=MAX_ISSUES, description="Issues at most, in order of number.")
    after: int = Field(0, ge=0, description="Only issues with a higher number.")


class One(Arguments):
    """One issue."""

    issue: Number


class Fields(Arguments):
    """Values of an issue; what is left out stays as it is."""

    title: Word | None = None
    status: Word | None = None
    priority: Word | None = None
    resolution: Word | None = None
    assignee: Word | None = Field(default=None, description="A login.")
    duplicate_of: Number | None = Field(default=None, description="The issue that stays.")
    closed_now: bool = Field(default=False, description="True: sets the time of closing to now.")
    watchers: list[Word] | None = Field(
        default=None, max_length=100, description="Logins: all who watch it from then on."
    )


class New(Arguments):
    """A new issue."""

    title: Word
    description: str = Field(default="", max_length=50_000)
    priority: Word | None = None
    assignee: Word | None = Field(default=None, description="A login.")


class Update(Fields):
    """Changes of one issue."""

    issue: Number


class Comment(Arguments):
    """A comment on one issue, in the account's own name."""

    issue: Number
    body: str = Field(min_length=1, max_length=50_000)


class Tracker(Protocol):
    """One call of one account to the interface of a tracker; `ToolError` if it is refused."""

    def made(self, source: str) -> tuple[Mark, ...]:
        """The transactions that it made, as far as the tracker names them."""

    def search(self, asked: Search) -> Any: ...

    def issue(self, number: int) -> Any: ...

    def create(self, asked: New) -> Any: ...

    def update(self, asked: Update) -> Any: ...

    def comment(self, asked: Comment) -> Any: ...


def tracker_tools(source: str, connect: Callable[[], Tracker]) -> tuple[Tool[Any], ...]:
    """The five tools of a tracker; each call goes to what `connect` gives."""
    update = ActionClass.REVERSIBLE_UPDATE

    def tool(
        verb: str,
        text: str,
        arguments: type[Arguments],
        act: Callable[[Tracker, Any], Any],
        kind: ActionClass,
    ) -> Tool[Any]:
        is_read = kind is ActionClass.READ

        def marked(taken: Any) -> Any:
            tracker = connect()
            result = act(tracker, taken)
            return result if is_read else Done(result, tracker.made(source))

        name = tool_name(source, verb)
        return Tool(name, text, arguments, marked, kind, is_harmless=is_read, is_one_step=True)

    return (
        tool(
            "list_issues",
            "Names issues.",
            Search,
            lambda tracker, asked: tracker.search(asked),
            ActionClass.READ,
        ),
        tool(
            "get_issue",
            "Tells all of one issue: fields, watchers and comments.",
            One,
            lambda tracker, asked: tracker.issue(asked.issue),
            ActionClass.READ,
        ),
        tool(
            "create_issue",
            "Makes an issue.",
            New,
            lambda tracker, asked: tracker.create(asked),
            update,
        ),
        tool(
            "update_issue",
            "Changes fields of an issue.",
            Update,
            lambda tracker, asked: tracker.update(asked),
            update,
        ),
        tool(
            "comment",
            "Adds a comment to an issue.",
            Comment,
            lambda tracker, asked: tracker.comment(asked),
            update,
        ),
    )
