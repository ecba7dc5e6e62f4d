"""Reference: runs the tests on a copy made from a clone; nothing is released while one fails."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git


def newest_tag(commit: object, repository: object) -> str:
    """The tag of the newest release that the commit contains."""
    tags = [name for name in repository.references if name.startswith("refs/tags/v")]
    contained = [
        (repository.references[name].peel().commit_time, name.removeprefix("refs/tags/"))
        for name in tags
        if repository.descendant_of(commit.id, repository.references[name].peel().id)
    ]
    return max(contained)[1]


repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
failing = git.failing_tests(repository, main)
tag = f"v{git.INPUTS['version']}"
git.answer(
    commit=str(main.id),
    tag=tag,
    previous=newest_tag(main, repository),
    failing=failing,
    releasable=not failing,
)
