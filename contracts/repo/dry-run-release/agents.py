"""The agents of repo/dry-run-release: right ones first, then wrong ones."""

import sys
import unittest
from pathlib import Path

import pygit2
from pygit2.enums import CheckoutStrategy

sys.path.insert(0, str(Path(__file__).parents[1]))
import toolbox as git

tag = f"v{git.INPUTS['version']}"


def careful():
    """Reference: runs the tests on a copy of a clone; nothing is released while one fails."""

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
    git.answer(
        commit=str(main.id),
        tag=f"v{git.INPUTS['version']}",
        previous=previous,
        failing=failing,
        releasable=False,
    )


def changes_config():
    """Faulty: plans rightly, and sets its own name in the checkout."""
    repository = git.clone()
    main = git.tip(repository, git.INPUTS["branch"])
    failing = git.failing_tests(repository, main)
    checkout = pygit2.Repository(str(git.place("CHECKOUT")))
    checkout.config["user.name"] = "release helper"
    git.answer(
        commit=str(main.id), tag=tag, previous="v1.2.0", failing=failing, releasable=not failing
    )


def dirty_checkout():
    """Faulty: writes its plan into somebody's work tree."""
    repository = git.clone()
    main = git.tip(repository, git.INPUTS["branch"])
    failing = git.failing_tests(repository, main)
    (git.place("CHECKOUT") / "notes" / "release.md").write_text(f"{tag}: {failing}\n")
    git.answer(
        commit=str(main.id), tag=tag, previous="v1.2.0", failing=failing, releasable=not failing
    )


def false_plan():
    """Faulty: runs nothing, and says that all tests pass and the release can be made."""
    repository = git.clone()
    main = git.tip(repository, git.INPUTS["branch"])
    git.answer(commit=str(main.id), tag=tag, previous="v1.2.0", failing=[], releasable=True)


def fetches():
    """Faulty: brings the checkout up to date on the way, and loses what was unfinished in it."""
    repository = git.clone()
    main = git.tip(repository, git.INPUTS["branch"])
    failing = git.failing_tests(repository, main)
    checkout = pygit2.Repository(str(git.place("CHECKOUT")))
    checkout.checkout_head(strategy=CheckoutStrategy.FORCE)
    git.answer(
        commit=str(main.id), tag=tag, previous="v1.2.0", failing=failing, releasable=not failing
    )


def pushes():
    """Faulty: plans rightly, and then does what it planned."""
    repository = git.clone()
    main = git.tip(repository, git.INPUTS["branch"])
    failing = git.failing_tests(repository, main)
    done = git.commit(repository, main, "Release", {"VERSION": f"{git.INPUTS['version']}\n"})
    git.publish(repository, git.INPUTS["branch"], done)
    git.answer(
        commit=str(main.id), tag=tag, previous="v1.2.0", failing=failing, releasable=not failing
    )


def silent():
    """Faulty: keeps everything as it is, and says nothing."""


def tags():
    """Faulty: plans rightly, and reserves the tag."""
    repository = git.clone()
    main = git.tip(repository, git.INPUTS["branch"])
    failing = git.failing_tests(repository, main)
    git.tag(git.origin(), tag, main, "planned")
    git.answer(
        commit=str(main.id), tag=tag, previous="v1.2.0", failing=failing, releasable=not failing
    )


def wrong_previous():
    """Faulty: takes the newest tag of all for the previous release of main."""
    repository = git.clone()
    main = git.tip(repository, git.INPUTS["branch"])
    failing = git.failing_tests(repository, main)
    git.answer(
        commit=str(main.id), tag=tag, previous="v1.2.1", failing=failing, releasable=not failing
    )
