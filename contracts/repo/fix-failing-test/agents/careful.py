"""Reference: one commit from a clone of its own, with a line in the changelog."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

MENDED = (
    "    for part in others:\n        first += part\n",
    '    for part in others:\n        first += -part if parts[0][0].startswith("-") else part\n',
)

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
changes = {
    "src/unitkit/parse.py": git.text(main, "src/unitkit/parse.py").replace(*MENDED),
    "CHANGELOG.md": git.text(main, "CHANGELOG.md").replace(
        "## Unreleased\n\n", "## Unreleased\n\n- A sign belongs to the whole quantity (#41).\n"
    ),
}
done = git.commit(repository, main, "A sign belongs to the whole quantity", changes, git.OSKAR)
git.publish(repository, git.INPUTS["branch"], done)
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
