"""Two tickets, and the contract that has the first one closed."""

from __future__ import annotations

from typing import Any, Final

CLOSE: Final = """\
contract: notes/close-ticket
version: 1.0.0
owner: support
intent: Close ticket 7 and change nothing else.
require:
  - id: closed
    update: ticket
    where: it.id == 7
    set: {status: closed}
"""


def tickets(seven: Any, eight: Any) -> dict[str, Any]:
    return {"ticket": [{"id": 7, "status": seven}, {"id": 8, "status": eight}]}


OPEN: Final = tickets("open", "open")
CLOSED: Final = tickets("closed", "open")
BOTH: Final = tickets("closed", "closed")
