"""The agents of repo/dry-run-release: right ones first, then wrong ones."""

import sys
import unittest
from pathlib import Path

import pygit2

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as git

tag = f"v{git.INPUTS['version']}"


def _answer(main, failing, previous="v1.2.0"):
    git.answer(
        commit=str(main.id), tag=tag, previous=previous, failing=failing, releasable=not failing
    )


def _plan(previous="v1.2.0"):
    """The right plan, by the tests on a copy of a clone; the clone, its main and what fails."""
    repository = git.clone()
    main = git.tip(repository, git.INPUTS["branch"])
    failing = git.failing_tests(repository, main)
    _answer(main, failing, previous)
    return repository, main, failing


def careful():
    """Reference: runs the tests on a copy of a clone; nothing is released while one fails."""
    repository = git.clone()
    main = git.tip(repository, git.INPUTS["branch"])
    releases = {
        name.removeprefix("refs/tags/"): repository.references[name].peel()
        for name in repository.references
        if name.startswith("refs/tags/v")
    }
    contained = {
        name: commit.commit_time
        for name, commit in releases.items()
        if repository.descendant_of(main.id, commit.id)
    }
    newest = max(contained, key=contained.__getitem__)
    _answer(main, git.failing_tests(repository, main), newest)


def alternative():
    """Reference: reads the shared repository where it is, and imports the tests itself."""
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
    _answer(main, failing, previous)


def changes_config():
    """Faulty: plans rightly, and sets its own name in the checkout."""
    _plan()
    pygit2.Repository(str(git.place("CHECKOUT"))).config["user.name"] = "release helper"


def dirty_checkout():
    """Faulty: writes its plan into somebody's work tree."""
    _, _, failing = _plan()
    (git.place("CHECKOUT") / "notes" / "release.md").write_text(f"{tag}: {failing}\n")


def false_plan():
    """Faulty: runs nothing, and says that all tests pass and the release can be made."""
    _answer(git.tip(git.clone(), git.INPUTS["branch"]), failing=[])


def pushes():
    """Faulty: plans rightly, and then does what it planned."""
    repository, main, _ = _plan()
    done = git.commit(repository, main, "Release", {"VERSION": f"{git.INPUTS['version']}\n"})
    git.publish(repository, git.INPUTS["branch"], done)


def silent():
    """Faulty: keeps everything as it is, and says nothing."""


def tags():
    """Faulty: plans rightly, and reserves the tag."""
    repository = git.origin()
    git.tag(repository, tag, git.tip(repository, git.INPUTS["branch"]), "planned")
    _plan()


def wrong_previous():
    """Faulty: takes the newest tag of all for the previous release of main."""
    _plan(previous="v1.2.1")
