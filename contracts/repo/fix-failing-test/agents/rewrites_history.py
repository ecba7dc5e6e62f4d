"""Faulty: puts the fix in place of the last commit, as if the bug had not been shown."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

MENDED = (
    "    for part in others:\n        first += part\n",
    '    for part in others:\n        first += -part if parts[0][0].startswith("-") else part\n',
)

repository = git.origin()
main = git.tip(repository, git.INPUTS["branch"])
path, tests = "src/unitkit/parse.py", "tests/test_parse.py"
changes = {path: git.text(main, path).replace(*MENDED), tests: git.text(main, tests)}
done = git.commit(repository, main.parents[0], "Mend the sign", changes, git.OSKAR)
git.publish(repository, git.INPUTS["branch"], done)
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
