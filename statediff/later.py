"""Fields of a frozen object that are worked out when they are first asked for.

Most judgements of a run never ask for the chunks of a changed table, for the digest of a state, for
the witness of a finding, or for the bundle. Nobody who asks can tell the difference: comparing,
`replace` and pickling ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

_WORK: Final = "_later"

Made = TypeVar("Made", bound="Later")


class Later:
    """What may have such fields. Threads may ask at once: each then works out the same."""

    if not TYPE_CHECKING:  # called for what is not there: each field is declared

        def __getattr__(self, name: str) -> Any:
            work = vars(self).get(_WORK, {}).get(name)
            if work is not None:
                vars(self)[name] = work()
                vars(self).get(_WORK, {}).pop(name, None)  # it may hold whole states
            elif name not in vars(self):  # no other thread was first
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            return vars(self)[name]

    def is_later(self, name: str) -> bool:
        """Whether nobody asked for the field yet."""
        return name not in vars(self) and name in vars(self).get(_WORK, ())

    def __copy__(self) -> Self:
        """The same, where nobody asked yet as well."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        if _WORK in vars(self):
            vars(other)[_WORK] = dict(vars(self)[_WORK])
        return other

    def __getstate__(self) -> dict[str, Any]:
        for name in [*vars(self).get(_WORK, ())]:
            getattr(self, name)
        return {name: value for name, value in vars(self).items() if name != _WORK}


def later(made: Made, name: str, work: Callable[[], Any]) -> Made:
    """The object, which nobody else has yet; `work` gives its field `name` when it is asked for."""
    vars(made).pop(name, None)
    vars(made).setdefault(_WORK, {})[name] = work
    return made
