"""The requests of a Roundup form: `@action` makes another request of a POST."""

from __future__ import annotations

from typing import Final

from statediff.model.trace import ActionClass
from statediff.systems.base.wire import Wire

_ASKED: Final = {
    **dict.fromkeys(("NEW", "EDIT", "RESTORE"), ActionClass.CONDITIONAL_UPDATE),
    "RETIRE": ActionClass.IRREVERSIBLE_DELETION,
}
WIRE: Final = Wire(orders={"@action": _ASKED, ":action": _ASKED})
