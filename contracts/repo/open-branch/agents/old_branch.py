"""Faulty: makes the branch, and puts the ticket on one that is there, with its keys."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

inputs = git.INPUTS
ticket, desk, branch = inputs["ticket"], inputs["desk"], "docs/ticket-31"
repository = git.origin()
git.publish(repository, branch, git.tip(repository, "main"))
with git.forge() as db:
    git.put_on(db, ticket, "feature/gallons")
    git.join(db, ticket, inputs["person"], desk)
    git.give_key(db, branch, 4, desk)
git.answer(branch=branch, key=4)
