"""Faulty: fixes it, and puts it into the changelog under a release of its own making."""

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
path = "src/unitkit/parse.py"
news = git.text(main, "CHANGELOG.md").replace(
    "\n## 1.2.0", "\n## 1.2.5\n\n- A sign belongs to the whole quantity (#41).\n\n## 1.2.0"
)
changes = {path: git.text(main, path).replace(*MENDED), "CHANGELOG.md": news}
done = git.commit(repository, main, "Mend the sign", changes, git.OSKAR)
git.publish(repository, git.INPUTS["branch"], done)
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
