"""Reference: pushes the branch from a clone, and takes the key that leads nowhere protected."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

inputs = git.INPUTS
ticket, desk, branch = inputs["ticket"], inputs["desk"], "docs/gallons"
repository = git.clone()
git.publish(repository, branch, git.tip(repository, "main"))
with git.forge() as db:
    found = db.execute("SELECT id FROM deploy_keys WHERE title = ?", (inputs["title"],)).fetchall()
    key = min({int(row[0]) for row in found} - git.keys_to_protected(db))
    git.give_key(db, branch, key, desk)
    git.put_on(db, ticket, branch)
    git.join(db, ticket, inputs["person"], desk)
git.answer(branch=branch, key=key)
