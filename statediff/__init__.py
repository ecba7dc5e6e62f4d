"""statediff decides, with evidence, if an agent's run changed the world as its task allowed.

The names of the Python API are those of `statediff.api`, which lists them; it is imported when one
of them is first used, so that importing statediff costs nothing.
"""

from typing import TYPE_CHECKING, Any

from statediff._version import __version__ as __version__

if TYPE_CHECKING:
    from statediff.api import *  # noqa: F403 - what editors and mypy see of `statediff.api.__all__`
else:

    def __getattr__(name: str) -> Any:
        """What the API calls by the name."""
        if name == "__all__":
            return _api().__all__
        if not (name.startswith("_") or _is_module(name)) and name in _api().__all__:
            return getattr(_api(), name)
        raise AttributeError(f"module 'statediff' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_api().__all__})

    def _api() -> Any:
        from statediff import api  # noqa: PLC0415 - importing statediff imports nothing else

        return api

    def _is_module(name: str) -> bool:
        """Whether `from statediff import name` means a module: it asks for an attribute first."""
        from importlib.util import find_spec  # noqa: PLC0415 - as above

        return find_spec(f"statediff.{name}") is not None
