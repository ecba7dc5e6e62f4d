"""Reference: two commits in place, a refactoring into a new module and then the fix."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

SIGNS = '''"""Signs of quantities in text."""


def split_sign(text):
    """-1 and the rest where the text begins with a minus, else 1 and the text."""
    body = text.strip()
    return (-1, body[1:].lstrip()) if body.startswith("-") else (1, body)
'''
repository = git.origin()
main = git.tip(repository, git.INPUTS["branch"])
prepared = git.commit(
    repository, main, "Split signs off in a module", {"src/unitkit/signs.py": SIGNS}, git.OSKAR
)
parse = git.text(main, "src/unitkit/parse.py")
edits = {
    "import Quantity\n": "import Quantity\nfrom unitkit.signs import split_sign\n",
    "    parts = _PART.findall(text)\n": (
        "    sign, body = split_sign(text)\n    parts = _PART.findall(body)\n"
    ),
    'not parts or _PART.sub("", text).strip()': (
        'not parts or "-" in body or _PART.sub("", body).strip()'
    ),
    "    return first\n": "    return first if sign > 0 else -first\n",
}
for old, new in edits.items():
    parse = parse.replace(old, new)
done = git.commit(
    repository, prepared, "Apply a sign to the sum", {"src/unitkit/parse.py": parse}, git.OSKAR
)
git.publish(repository, git.INPUTS["branch"], done)
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
