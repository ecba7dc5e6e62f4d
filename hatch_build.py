"""Puts a distribution's packs into its wheel, where an installed statediff finds them.

`sandboxes/` and `contracts/` live at the top of the repository because they are data. A static
`force-include` would also copy them into an editable install, where the copy would go stale; hence
a hook that acts on real wheels only. Each pyproject.toml says what it carries: `package`, and under
`data` each folder and its place in `PACKAGE/_packs`.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PacksBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own generic is private
    """A wheel holds every pack of its distribution; an editable install holds none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Map each pack to its place in the wheel; a missing one stops the build."""
        if version == "editable":
            return
        for name, place in self.config["data"].items():
            source = Path(self.root, name).resolve()
            if not source.exists():
                message = f"{name} not found beside pyproject.toml; a wheel needs it"
                raise FileNotFoundError(message)
            to = f"{self.config['package']}/_packs/{place}"
            build_data["force_include"][str(source)] = to
