"""Fields of a frozen object that are worked out when they are first asked for.

Most judgements of a run never ask for the chunks of a changed table, for the digest of a state, or
for the bundle. Nobody who asks can tell the difference: comparing, `replace` and pickling ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

_WORK: Final = "_later"

Made = TypeVar("Made", bound="Later")


class Later:
    """A class that may have one such field. Threads may ask at once: each works out the same."""

    if not TYPE_CHECKING:  # called for what is not there: each field is declared

        def __getattr__(self, name: str) -> Any:
            waiting, work = vars(self).get(_WORK, ("", None))
            if name == waiting:
                vars(self)[name] = work()
                vars(self).pop(_WORK, None)  # it may hold whole states
            elif name not in vars(self):  # no other thread was first
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            return vars(self)[name]

    def is_later(self, name: str) -> bool:
        """True if nobody asked for the field yet."""
        return name not in vars(self) and name == vars(self).get(_WORK, ("",))[0]

    def __copy__(self) -> Self:
        """The same, where nobody asked yet as well."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __getstate__(self) -> dict[str, Any]:
        if (waiting := vars(self).get(_WORK)) is not None:
            getattr(self, waiting[0])
        return {name: value for name, value in vars(self).items() if name != _WORK}


def later(made: Made, name: str, work: Callable[[], Any]) -> Made:
    """The object, which nobody else has yet; `work` gives its field `name` when it is asked for."""
    if hasattr(type(made), name):
        raise TypeError(f"{name} has a default of its class, which would be taken for it")
    vars(made).pop(name, None)
    vars(made)[_WORK] = name, work
    return made
