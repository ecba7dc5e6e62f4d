"""statediff decides, with evidence, if an agent's run changed the world as its task allowed.

The names of the Python API are those of `statediff.api`; each is imported when it is first used,
so that importing statediff costs nothing.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

__all__ = [
    "Judged",
    "StatediffError",
    "Trial",
    "Verdict",
    "changes",
    "judge",
    "lint",
    "load",
    "load_contract",
    "open_sandbox",
    "replay",
    "run",
]


def __getattr__(name: str) -> Any:
    """What the API calls by the name. Editors and mypy read `__init__.pyi` instead."""
    if name not in __all__:
        raise AttributeError(f"module 'statediff' has no attribute {name!r}")
    # By text: an import statement here would put every module above every other.
    return getattr(importlib.import_module("statediff.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
