"""Reference: reads the shared repository where it is, and imports the tests itself."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.origin()
main = git.tip(repository, git.INPUTS["branch"])
git.write_files(repository, main, Path("files"))
sys.path[:0] = ["files/src", "files"]
sys.dont_write_bytecode = True
result = unittest.TestResult()
unittest.defaultTestLoader.discover("files/tests", top_level_dir="files").run(result)
failing = sorted({test.id() for test, _ in result.failures + result.errors})
history = {commit.id: at for at, commit in enumerate(repository.walk(main.id))}
tags = {
    repository.references[name].peel().id: name.removeprefix("refs/tags/")
    for name in repository.references
    if name.startswith("refs/tags/v")
}
previous = tags[min((oid for oid in tags if oid in history), key=history.__getitem__)]
git.answer(
    commit=str(main.id),
    tag=f"v{git.INPUTS['version']}",
    previous=previous,
    failing=failing,
    releasable=False,
)
