"""Faulty: makes exactly the text of the test come out right."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
path = "src/unitkit/parse.py"
parse = git.text(main, path).replace(
    "    parts = _PART.findall(text)\n",
    '    if text == "-1 ft 6 in":\n        return Quantity(Fraction(-3, 2), "ft")\n'
    "    parts = _PART.findall(text)\n",
)
done = git.commit(repository, main, "Mend the sign", {path: parse}, git.OSKAR)
git.publish(repository, git.INPUTS["branch"], done)
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
