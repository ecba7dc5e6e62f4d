"""Every code that `lint` can report: how grave it is, what it means, what to write instead.

The site makes its page of this. An error makes a contract unusable or its verdicts wrong, a
warning lets something through that its author probably did not mean, advice makes it clearer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ERROR: Final = "error"
WARNING: Final = "warning"
ADVICE: Final = "advice"
SEVERITIES: Final = (ERROR, WARNING, ADVICE)


@dataclass(frozen=True)
class LintCode:
    """One code. `family` groups them in the docs; `instead` is the hint in general."""

    code: str
    severity: str
    family: str
    meaning: str
    instead: str


def _codes(family: str, severity: str, *rows: tuple[str, str, str]) -> tuple[LintCode, ...]:
    return tuple(LintCode(code, severity, family, meaning, hint) for code, meaning, hint in rows)


_FILE: Final = "the file"
_SHAPE: Final = "shape and names"
_TRUTH: Final = "clauses that decide nothing"
_WIDTH: Final = "what is let through"
_UNDEFINED: Final = "undefined"
_EVIDENCE: Final = "evidence"
_WORDS: Final = "words"
_READS: Final = "what is read"

_ALL: Final = (
    *_codes(
        _FILE,
        ERROR,
        ("syntax", "not YAML 1.2", "fix what stands there"),
        ("not-utf-8", "the bytes are no UTF-8 text", "save the file as UTF-8"),
        ("too-large", "more than 256 KiB", "move data to a fixture"),
        ("too-deep", "more than 30 levels", "write it flatter"),
        ("too-many-nodes", "more than 20,000 values", "move data to a fixture"),
        ("control-character", "a character that a reader of the file cannot see", "remove it"),
        ("hidden-character", "a key or expression holds a character one cannot see", "remove it"),
        ("directive", "a `%` directive", "remove it"),
        ("several-documents", "a second document", "one document a file"),
        ("empty-document", "nothing in it", "begin with `contract:`"),
        ("not-a-mapping", "the top is no mapping", "begin with `contract:`"),
        ("anchor", "an anchor or alias", "write the value out"),
        ("tag", "a tag", "remove it"),
        ("merge-key", "the merge key `<<`", "write the keys out"),
        ("duplicate-key", "a key twice in one mapping", "keep one"),
        ("key-not-text", "a key that is no text", "quote it"),
        ("number", "a number YAML 1.2 does not know or nobody can read", "quote it if it is text"),
        (
            "flow-expression",
            "an expression between { } or [ ] that a comma or bracket cuts",
            "quote it, or write it on a line of its own",
        ),
    ),
    *_codes(
        _SHAPE,
        ERROR,
        ("invalid", "a key or value of the wrong form", "write what was expected"),
        ("unknown-key", "a key the language does not have", "use the one that is meant"),
        ("missing-key", "a key that every contract has is missing", "add it"),
        ("unknown-profile", "`use` names a profile that nobody has", "use the one that is meant"),
        ("missing-input", "a profile asks for an input that is not given", "give it"),
        ("wrong-input", "an input that a profile writes between quotes", "give a plain word"),
        ("duplicate-id", "two clauses with one id", "rename one of them"),
        (
            "path",
            "a path that cannot be read, leads into what has no inside, or to several places",
            'write `field.key`, `field[2]`, `field."a key"`',
        ),
        (
            "unknown-name",
            "a type, field, input, function or clause that nothing is called",
            "use the name that is meant",
        ),
        (
            "contract",
            "a type, count or value that cannot stand where it does",
            "write what the message expects",
        ),
        (
            "expression",
            "an expression that is not well formed or not well typed",
            "see the reference of expressions",
        ),
        (
            "boundary",
            "a clause reads what lies outside the boundary",
            "drop the exclusion or the clause",
        ),
        (
            "exclude",
            "an exclusion that cannot be applied",
            "name a TYPE or TYPE.FIELD of the state",
        ),
        ("canonicalize", "a rule that cannot be applied where it stands", "see the table of rules"),
        (
            "identify",
            "a rule of identity that cannot be applied",
            "match on fields of a type without a key",
        ),
        (
            "released-changed",
            "a released version whose digest is not the one signed off",
            "restore the file, or raise its version",
        ),
        (
            "self-reviewed",
            "a release signed off by its own author",
            "somebody else must review it",
        ),
    ),
    *_codes(
        _TRUTH,
        ERROR,
        (
            "null-run",
            "a run in which nothing happens would MATCH",
            "require what must change, or say `noop: true`",
        ),
        (
            "constant-clause",
            "a clause reads no state, so its truth is fixed by the contract",
            "compare something of before, after or the changes",
        ),
        (
            "never-fails",
            "a required clause that no run can fail",
            "give a `count` with a `min` of at least 1, or a `that`",
        ),
        (
            "never-matches",
            "the conditions of a pattern contradict each other or their types",
            "drop one of the two",
        ),
        (
            "fixed-before-run",
            "a required condition reads only the state before, so no run moves it",
            "read `after` or the changes",
        ),
        (
            "already-forbidden",
            "a forbidden condition holds before anything happens",
            "forbid the change, not the condition",
        ),
        (
            "absent-before",
            "a clause asks for an entity that the base state does not have",
            "correct the input or the key",
        ),
        (
            "contradiction",
            "what is allowed or required is forbidden as well",
            "narrow the forbid clause, or drop the other",
        ),
    ),
    *_codes(
        _TRUTH,
        WARNING,
        (
            "already-holds",
            "a required condition holds before anything happens",
            "require the change as a pattern; write an invariant as `forbid: that: not (…)`",
        ),
        (
            "matches-nothing",
            "no entity of the base state satisfies `where`",
            "correct the condition",
        ),
        (
            "already-there",
            "the base state is already as a required update must leave it",
            "judge over the state that a run begins with, or correct `set`",
        ),
        (
            "claim-without-answer",
            "a claim that does not read the answer",
            "compare `answer.NAME` with the state, or move it to `require`",
        ),
        (
            "text-not-expression",
            "a value of `set` or `from` is a text that reads like an expression",
            "write `{is: EXPRESSION}` to have it computed",
        ),
        ("unused-input", "no expression and no prompt uses the input", "use it or remove it"),
    ),
    *_codes(
        _WIDTH,
        ERROR,
        (
            "too-many-pairs",
            "entities of two sets are compared pair by pair, a billion times or more",
            "tie them by `==` on a field of each, before anything else that compares both",
        ),
        (
            "unauthorized-privilege",
            "a change of permissions is let through without authorization evidence and an actor",
            "say under `effects` what authorizes it, and in whose name: `authorized_by`, `actor`",
        ),
        (
            "label-below-default",
            "an effect counts as lighter than such a change does by default",
            "say why under `because`, or leave the label out",
        ),
        (
            "unknown-tool",
            "a compensation names a tool that the sandbox does not offer",
            "use a tool of the sandbox, or leave it out",
        ),
        (
            "compensation-arguments",
            "a compensation is not a call that its tool takes",
            "write `compensation: {tool, arguments}` with the arguments of the tool",
        ),
    ),
    *_codes(
        _WIDTH,
        WARNING,
        (
            "explains-too-much",
            "a clause explains every change of a type",
            "say which entities with `where`, which fields with `fields`",
        ),
        (
            "allow-forbid-overlap",
            "a change can be allowed and forbidden at once; forbidden wins",
            "make their conditions disjoint",
        ),
        (
            "stamps-unexplained",
            "a soft deletion is explained, and a field that goes with its mark is not",
            "allow the update of the field, too",
        ),
        (
            "unsaid-parts",
            "a message is explained, and nothing is said of further parts and headers of one",
            "forbid `message_part` and `message_header`, or allow those that are meant",
        ),
        (
            "unread-text",
            "a thing of words is required, such as a letter, and no clause reads its text",
            'ask for some text: `search(it.FIELD, "[\\\\pL\\\\pN]")`, or for this one',
        ),
        (
            "unauthorized",
            "an irreversible change may happen without an authorization",
            "say under `effects` what authorizes it: `authorized_by`",
        ),
        (
            "open-frame",
            "the frame is open although the sandbox is the trial's own",
            "close it and allow what may change",
        ),
        (
            "prescribed-order",
            "an order of tool calls is prescribed, not an effect",
            "require the order of effects in the world, or an invariant that holds `always`",
        ),
    ),
    *_codes(
        _WIDTH,
        ADVICE,
        (
            "unstated-effect",
            "an irreversible change is required and nothing is said about it",
            "name it under `effects` with `reversibility`, `retry_safe` or `authorized_by`",
        ),
        (
            "later-work",
            "an agent can read commits that come after the base of its repository",
            "name under `keep` of the sandbox file only what the task needs",
        ),
        (
            "pairs",
            "entities of two sets are compared pair by pair, a million times or more",
            "tie them by `==` on a field of each, before anything else that compares both",
        ),
        (
            "end-unasked",
            "a run that hung, crashed or was killed after the right change would MATCH",
            'require it, where it matters: `that: run.ended == "by-itself"`',
        ),
    ),
    *_codes(
        _UNDEFINED,
        ERROR,
        (
            "unguarded-null",
            "in forbid, a run that leaves the field null would be convicted",
            "guard it, or say that null is forbidden, too",
        ),
    ),
    *_codes(
        _UNDEFINED,
        WARNING,
        (
            "unguarded",
            "what the run leaves undefined is forbidden, or not allowed; any other is INCONCLUSIVE",
            "guard it",
        ),
    ),
    *_codes(
        _UNDEFINED,
        ADVICE,
        (
            "undefined-fails",
            "in a required clause, undefined fails with a code that says little",
            "guard it",
        ),
    ),
    *_codes(
        _EVIDENCE,
        ERROR,
        (
            "unknown-source",
            "a source must report that is not at hand",
            "name a source of the sandbox",
        ),
        (
            "not-replayable",
            "a disclosure file promises a copy from which the contract withholds a source",
            "write `disclose: reviewer` for the source, and exclude nothing of it",
        ),
        (
            "opaque-comparison",
            "a rule of `canonicalize` leaves of the field only whether it has a value",
            "drop the rule, or compare with null",
        ),
    ),
    *_codes(
        _EVIDENCE,
        WARNING,
        (
            "unlisted-source",
            "a clause reads a source that need not report",
            "list it under `evidence`",
        ),
        (
            "no-history",
            "a clause needs what happened during the run; no source delivers it",
            "judge the end points, use a source with a change feed, or an agent that acts by tools",
        ),
    ),
    *_codes(
        _READS,
        ERROR,
        (
            "sees-nothing",
            "whom the agent acts for may read nothing at all",
            "give it a role that may read something",
        ),
        (
            "unknown-subsystem",
            "a role may read a subsystem that there is not",
            "use the name that is meant",
        ),
        (
            "unreachable-evidence",
            "what must be looked at lies where the actor may not look",
            "grant the subsystem, or do not ask for it",
        ),
    ),
    *_codes(
        _READS,
        WARNING,
        (
            "empty-shelf",
            "there is nothing of what must be looked at",
            "correct the condition; of an empty search space only a search can be asked",
        ),
    ),
    *_codes(
        _WORDS,
        ERROR,
        (
            "prompt-unknown-input",
            "the prompt names an input that the contract does not have",
            "add it under `inputs`",
        ),
    ),
    *_codes(
        _WORDS,
        WARNING,
        (
            "prose-test",
            "a required clause tests a part of prose",
            "claim the fact in the answer (`schema`, `extract`), or compare the whole text",
        ),
        ("hollow-reason", "a reason that gives none", "say why, for its reviewers"),
        (
            "placeholder",
            "`owner` or `intent` is still the draft's",
            "say who answers, and for what",
        ),
        (
            "one-example",
            "one right run did what a drafted clause allows, and no other",
            "give another right run, or say why under `because`",
        ),
        (
            "unreviewed",
            "a released version that nobody has signed off",
            "let somebody else review it: `statediff contract sign-off`",
        ),
    ),
)

CATALOGUE: Final = {entry.code: entry for entry in _ALL}
"""Every code, by code, in the order of the docs."""
