"""Policy documents as statements, and who may do what on what by them.

`statements` takes a document apart, one `Statement` each. `expand` says who may do what: a `Grant`
for each principal, action and resource as they are written, over groups, roles that can be assumed,
resource policies and access lists. It is conservative: a condition on who may assume a role is kept
with what the role may, a `NotPrincipal` is everybody, and a `NotAction` or `NotResource` is a
pattern of its own that covers nothing but itself.

`span` makes patterns comparable: whatever a pattern B allows, A allows too, if the span of B starts
with the span of A. It can be false where A covers B all the same (`*Object`), never true where it
does not.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

ANYBODY: Final = "*"
ACCOUNT: Final = "account"
"""Every user and role of the account, as far as its own policies allow it."""
_ASSUME: Final = "sts:AssumeRole"
_ARN: Final = re.compile(
    r"arn:aws:(?:iam|sts)::([0-9]{12}):(user|role|assumed-role|root)(?:/(.*))?"
)


@dataclass(frozen=True)
class Statement:
    """One statement of a document; texts are as written, lists even where one text was."""

    document: str
    """Where it is, e.g. `policy/deploy:v2`, `role/courier:trust`, `bucket/fernway-site`."""
    number: int
    sid: str | None
    effect: str
    principals: tuple[str, ...]
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: str
    """Canonical JSON; empty where there is none."""
    negated: tuple[str, ...]
    """Which of Principal, Action and Resource say what is meant not."""


class Grant(NamedTuple):
    """One principal may, or must not, do one pattern of actions on one pattern of resources."""

    principal: str
    action: str
    resource: str
    condition: str


def statements(document: str, text: str, account: str) -> tuple[Statement, ...]:
    """Those of a policy document, in their order; none of what is no policy document."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    found = parsed.get("Statement") if isinstance(parsed, dict) else None
    each = found if isinstance(found, list) else [found]
    return tuple(
        _statement(document, number, one, account)
        for number, one in enumerate(each)
        if isinstance(one, dict)
    )


def _statement(document: str, number: int, one: Mapping[str, Any], account: str) -> Statement:
    negated = tuple(n for n in ("Principal", "Action", "Resource") if f"Not{n}" in one)

    def listed(name: str) -> tuple[str, ...]:
        return _texts(one.get(name, one.get(f"Not{name}")))

    condition = one.get("Condition")
    sid = one.get("Sid")
    return Statement(
        document,
        number,
        None if sid is None else str(sid),
        str(one.get("Effect")),
        _principals(one.get("Principal", one.get("NotPrincipal")), account),
        listed("Action"),
        listed("Resource"),
        canonical(condition) if condition else "",
        negated,
    )


def canonical(value: Any) -> str:
    """JSON with one spelling."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _texts(value: Any) -> tuple[str, ...]:
    each = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(one if isinstance(one, str) else canonical(one) for one in each)


def _principals(value: Any, account: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        return tuple(principal_named(one, account) for one in _texts(value))
    found = []
    for kind, named in sorted(value.items()):
        for one in _texts(named):
            is_aws = kind == "AWS"
            found.append(principal_named(one, account) if is_aws else f"{kind.lower()}/{one}")
    return tuple(found)


def principal_named(text: str, account: str) -> str:
    """`user/ada` and `role/courier` of this account, `account`, `*`, or the text itself."""
    if text in (ANYBODY, account):
        return ANYBODY if text == ANYBODY else ACCOUNT
    found = _ARN.fullmatch(text)
    if found is None or found[1] != account:
        return text
    kind, path = found[2], found[3] or ""
    if kind == "root":
        return ACCOUNT
    if kind == "assumed-role":
        return f"role/{path.partition('/')[0]}"
    return f"{kind}/{path.rpartition('/')[2]}"


def span(pattern: str, *, is_action: bool = False) -> str:
    """The common start of the spans of all patterns that this one surely covers.

    >>> span("s3:Get*", is_action=True), span("arn:aws:s3:::site/a.txt")
    ('s3:get', 'arn:aws:s3:::site/a.txt$')
    """
    text = pattern.lower() if is_action else pattern
    text = text.replace("\\", "\\\\").replace("$", "\\d")  # so that `$` is an end, and nothing else
    stem = text[:-1]
    if text.endswith("*") and not {"*", "?"} & set(stem):
        return stem
    return f"{text}$"


def matches(pattern: str, text: str, *, is_action: bool = False) -> bool:
    """True if a pattern with `*` and `?` names the text."""
    if is_action:
        pattern, text = pattern.lower(), text.lower()
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


@dataclass(frozen=True)
class Policies:
    """All that decides who may do what."""

    identity: Mapping[str, Sequence[Statement]]
    """Principal (`user/ada`, `role/courier`) → the statements of its own and of its groups."""
    trust: Mapping[str, Sequence[Statement]]
    """ARN of a role → its trust policy."""
    roles: Mapping[str, str]
    """ARN of a role → its principal."""
    resource: Sequence[Statement]
    """Those of buckets and queues that are in force."""
    lists: Iterable[Grant]
    """What access lists allow."""


def expand(policies: Policies) -> tuple[frozenset[Grant], frozenset[Grant]]:
    """The grants that are allowed, and those that are denied."""
    own = {who: _grants(each, (who,)) for who, each in policies.identity.items()}
    allowed = {grant for grants in own.values() for grant in grants["Allow"]}
    denied = {grant for grants in own.values() for grant in grants["Deny"]}
    resource = _grants(policies.resource, ())
    allowed |= resource["Allow"] | set(policies.lists)
    denied |= resource["Deny"]
    entries = {arn: _entries(each, arn) for arn, each in policies.trust.items()}
    for grants in entries.values():
        allowed |= grants["Allow"]
        denied |= grants["Deny"]
    allowed |= _through_roles(policies, own, entries)
    return frozenset(allowed), frozenset(denied)


_Sorted = dict[str, set[Grant]]


def _grants(each: Iterable[Statement], principals: tuple[str, ...]) -> _Sorted:
    found: _Sorted = {"Allow": set(), "Deny": set()}
    for one in each:
        actions = _negated("Action", one.actions, one)
        resources = _negated("Resource", one.resources, one)
        named = principals or one.principals
        if "Principal" in one.negated:
            named = (ANYBODY,)
        into = found["Deny" if one.effect == "Deny" else "Allow"]
        into |= {
            Grant(who, action, resource, one.condition)
            for who in named
            for action in actions
            for resource in resources
        }
    return found


def _negated(part: str, texts: tuple[str, ...], one: Statement) -> tuple[str, ...]:
    return (f"all but {', '.join(texts)}",) if part in one.negated else texts


def _entries(each: Sequence[Statement], arn: str) -> _Sorted:
    """A trust policy names no resource: it is the role."""
    found = _grants(each, ())
    for one in each:
        if not one.resources:
            named = (ANYBODY,) if "Principal" in one.negated else one.principals
            into = found["Deny" if one.effect == "Deny" else "Allow"]
            into |= {Grant(who, a, arn, one.condition) for who in named for a in one.actions}
    return found


def _through_roles(
    policies: Policies, own: Mapping[str, _Sorted], entries: Mapping[str, _Sorted]
) -> set[Grant]:
    """The grants that principals have by the roles that they can assume, by whatever roles."""
    steps: dict[str, set[tuple[str, str]]] = {}
    for arn, grants in entries.items():
        for entry in grants["Allow"]:
            if matches(entry.action, _ASSUME, is_action=True) or entry.action.startswith("all but"):
                for who in _who(entry.principal, arn, own):
                    steps.setdefault(who, set()).add((policies.roles[arn], entry.condition))
    found = set()
    for who, first in steps.items():
        reached: set[tuple[str, str]] = set()
        waiting = set(first)
        while waiting:
            role, condition = step = waiting.pop()
            reached.add(step)
            further = {(r, _both(condition, c)) for r, c in steps.get(role, ())}
            waiting |= {each for each in further if each[0] not in {r for r, _ in reached}}
        for role, condition in reached:
            for grant in own[role]["Allow"] if role != who else ():
                both = _both(condition, grant.condition)
                found.add(Grant(who, grant.action, grant.resource, both))
    return found


def _who(named: str, role: str, own: Mapping[str, _Sorted]) -> Iterable[str]:
    if named == ANYBODY:
        return (ANYBODY, *own)
    if named != ACCOUNT:
        return (named,)
    return [
        who
        for who, grants in own.items()
        if any(
            (matches(g.action, _ASSUME, is_action=True) or g.action.startswith("all but"))
            and (matches(g.resource, role) or g.resource.startswith("all but"))
            for g in grants["Allow"]
        )
    ]


def _both(one: str, two: str) -> str:
    if not one or not two or one == two:
        return one or two
    return f"{one} and {two}"
