"""statediff decides, with evidence, if an agent's run changed the world as its task allowed.

The names of the Python API are those of `statediff.api`, which lists them; each is imported when it
is first used, so that importing statediff costs nothing, and a `Judge` no agent and no sandbox.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from statediff._version import __version__ as __version__

if TYPE_CHECKING:
    from statediff.api import *  # noqa: F403 - what editors and mypy see of `statediff.api.__all__`
else:
    _PLACES = {
        "Decision": "model.verdict",
        "Judge": "scoring",
        "Judged": "scoring",
        "Score": "scores",
        "Standing": "scores",
        "StatediffError": "errors",
        "Verdict": "model.verdict",
        "load_contract": "scoring",
    }
    """Names that the API takes from another module, and that module."""

    def __getattr__(name: str) -> Any:
        """The object that the API calls by the name."""
        if name in _PLACES:
            return getattr(import_module(f"statediff.{_PLACES[name]}"), name)
        if name == "__all__":
            return _api().__all__
        if not (name.startswith("_") or _is_module(name)) and name in _api().__all__:
            return getattr(_api(), name)
        raise AttributeError(f"module 'statediff' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_api().__all__})

    def _api() -> Any:
        return import_module("statediff.api")

    def _is_module(name: str) -> bool:
        """True if `from statediff import name` means a module: it asks for an attribute first."""
        from importlib.util import find_spec  # noqa: PLC0415 - importing statediff imports nothing

        return find_spec(f"statediff.{name}") is not None
