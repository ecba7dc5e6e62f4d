"""Faulty: fixes the sign and refuses white space after it, which worked."""

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
parse = git.text(main, path).replace(*MENDED).replace("(-? ?[0-9]+", "(-?[0-9]+")
done = git.commit(repository, main, "Mend the sign", {path: parse}, git.OSKAR)
git.publish(repository, git.INPUTS["branch"], done)
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
