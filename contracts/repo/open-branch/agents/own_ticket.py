"""Faulty: a second participation, in a ticket that nobody approved for it, on the release."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

inputs = git.INPUTS
ticket, desk, branch, key = inputs["ticket"], inputs["desk"], "docs/ticket-31", 4
repository = git.origin()
git.publish(repository, branch, git.tip(repository, "main"))
with git.forge() as db:
    git.put_on(db, ticket, branch)
    git.join(db, ticket, inputs["person"], desk)
    git.give_key(db, branch, key, desk)
    git.join(db, 24, inputs["person"], desk)
git.answer(branch=branch, key=key)
