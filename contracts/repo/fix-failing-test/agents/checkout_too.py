"""Faulty: fixes it, and tidies the work tree that is not its own."""

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
changes = {path: git.text(main, path).replace(*MENDED)}
done = git.commit(repository, main, "Mend the sign", changes, git.OSKAR)
git.publish(repository, git.INPUTS["branch"], done)
(git.place("CHECKOUT") / "README.md").write_text(git.text(main, "README.md"))
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
