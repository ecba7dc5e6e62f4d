"""Statements, spans and who may do what by them."""

import json

from hypothesis import given
from hypothesis import strategies as st
from statediff_cloud.policies import (
    Grant,
    Policies,
    expand,
    matches,
    principal_named,
    span,
    statements,
)

ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/deployer"
PATTERNS = st.text("ab$*?\\:", max_size=6)


def document(*each: object) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(each)})


def said(place: str, *each: object):
    return statements(place, document(*each), ACCOUNT)


def allowed(identity, trust=(), resource=(), lists=()):
    own = {name: said(name, *each) for name, each in identity.items()}
    entries = {ROLE: said("role/deployer:trust", *trust)}
    found = expand(
        Policies(own, entries, {ROLE: "role/deployer"}, said("bucket/b", *resource), lists)
    )
    return {(g.principal, g.action, g.resource) for g in found[0]}, found[1]


WRITE = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::site/*"}
ASSUME = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": ROLE}


def trust(principal, **more):
    return {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole", **more}


@given(PATTERNS, PATTERNS, st.text("ab$:\\", max_size=6))
def test_what_a_pattern_names_every_pattern_names_whose_span_begins_its_span(one, two, text):
    if span(one).startswith(span(two)) and matches(one, text):
        assert matches(two, text)


@given(PATTERNS)
def test_every_pattern_is_within_all_and_within_itself(pattern):
    assert span(pattern).startswith(span("*"))
    assert span(pattern).startswith(span(pattern))


def test_an_exact_name_is_not_within_a_shorter_one_and_case_is_nothing_in_actions():
    assert not span("s3:GetObjectAcl", is_action=True).startswith(
        span("s3:GetObject", is_action=True)
    )
    assert span("S3:getobject", is_action=True) == span("s3:GetObject", is_action=True)
    assert not span("arn:aws:s3:::a$b").startswith(span("arn:aws:s3:::a"))
    assert not span("s3:*").startswith(span("s3:Get*"))


def test_what_is_no_policy_document_has_no_statements():
    for text in ("", "no", "[]", "1", '{"Statement": 3}', "[" * 100_000, '{"Statement": [null]}'):
        assert statements("x", text, ACCOUNT) == ()


def test_one_statement_may_stand_alone_and_texts_may_stand_for_lists():
    [found] = statements("x", json.dumps({"Statement": {**WRITE, "Sid": 7}}), ACCOUNT)
    assert (found.sid, found.actions, found.resources) == (
        "7",
        ("s3:PutObject",),
        (WRITE["Resource"],),
    )


def test_principals_are_named_as_their_owner_knows_them():
    root = f"arn:aws:iam::{ACCOUNT}"
    names = {
        "*": "*",
        ACCOUNT: "account",
        f"{root}:root": "account",
        f"{root}:user/eng/ada": "user/ada",
        f"{root}:role/deployer": "role/deployer",
        f"arn:aws:sts::{ACCOUNT}:assumed-role/deployer/late": "role/deployer",
        "arn:aws:iam::210987654321:user/ada": "arn:aws:iam::210987654321:user/ada",
    }
    assert {text: principal_named(text, ACCOUNT) for text in names} == names


def test_a_role_is_reached_by_whom_its_trust_names():
    roles = {"role/deployer": [WRITE], "user/ada": [], "user/bo": []}
    found, _ = allowed(roles, [trust({"AWS": f"arn:aws:iam::{ACCOUNT}:user/ada"})])
    assert ("user/ada", "s3:PutObject", WRITE["Resource"]) in found
    assert not any(who == "user/bo" for who, _, _ in found)


def test_trust_in_the_account_is_for_those_whose_own_policies_allow_it():
    roles = {"role/deployer": [WRITE], "user/ada": [ASSUME], "user/bo": [], "user/root": []}
    roles["user/root"] = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    found, _ = allowed(roles, [trust({"AWS": ACCOUNT})])
    reached = {who for who, action, _ in found if action == "s3:PutObject"}
    assert reached == {"role/deployer", "user/ada", "user/root"}


def test_trust_in_anybody_and_in_all_but_somebody_is_for_everybody():
    for one in (trust("*"), {**trust(None), "NotPrincipal": {"AWS": "x"}}):
        found, _ = allowed({"role/deployer": [WRITE], "user/bo": []}, [one])
        assert {"*", "user/bo"} <= {who for who, action, _ in found if action == "s3:PutObject"}


def test_conditions_of_entering_a_role_are_conditions_of_what_it_may():
    condition = {"StringEquals": {"sts:ExternalId": "x"}}
    own = {"role/deployer": said("a", WRITE)}
    entry = said("t", trust({"AWS": "arn:aws:iam::210987654321:root"}, Condition=condition))
    found, _ = expand(Policies(own, {ROLE: entry}, {ROLE: "role/deployer"}, (), ()))
    [reached] = [
        g for g in found if g.principal != "role/deployer" and g.action != "sts:AssumeRole"
    ]
    assert json.loads(reached.condition) == condition


def test_all_but_some_actions_cover_nothing_but_themselves():
    own = {"user/ada": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]}
    [(_, action, _)] = allowed(own)[0]
    assert not span("s3:GetObject", is_action=True).startswith(span(action, is_action=True))


def test_denials_stand_apart_and_lists_are_rights():
    deny = {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}
    listed = Grant("*", "s3:GetObject", "arn:aws:s3:::site/a", "")
    found, denied = allowed({"user/ada": [deny]}, lists=[listed])
    assert found == {listed[:3]}
    assert [g[:3] for g in denied] == [("user/ada", "s3:*", "*")]
