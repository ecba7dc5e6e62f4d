"""The account's server: what it refuses, what it keeps, and what an agent may leave in it."""

import contextlib
import http.client
import json
import time
from datetime import UTC, datetime

import pytest
from statediff_cloud.rows import Rows
from statediff_cloud.sandbox import EmbeddedAccount, read_seed

from sandboxes.cloud.tests.account import LOGS, REPORTS, SITE, account, iam, s3, signed, sqs
from statediff.capture.source import SourceUnavailable
from statediff.capture.take import take
from statediff.errors import SandboxError
from statediff.model.state import Coverage, MemoryChunks
from statediff.packs import PackSource
from statediff.systems.base.tool import ToolError

pytestmark = pytest.mark.pack("statediff[cloud]")


def clock() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def system(running):
    running.start()
    running.reset()
    return running


def state(system):
    [part] = take(system.sources(), MemoryChunks(), clock, None, "now").parts
    return part.state


def rows(system, name):
    return [row for _, row in state(system).tables[name].rows()]


def visit(system, path, method="GET", **headers):
    """The answer to somebody who does not sign."""
    connection = http.client.HTTPConnection(signed(system).host, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def refusal(step, system):
    with pytest.raises(ToolError) as refused:
        step(system)
    return str(refused.value)


def test_the_server_refuses_what_the_policies_of_a_user_do_not_allow(system):
    assert "AccessDenied" in refusal(iam("CreateUser", UserName="x"), system)
    assert "AccessDenied" in refusal(iam("CreateAccessKey", user="tomas", UserName="lea"), system)
    assert "AccessDenied" in refusal(s3("PUT", f"{SITE}/a", body=b"x", user="courier"), system)
    s3("PUT", "/fernway-intake/courier/a", body=b"x", user="courier")(system)
    iam("CreateUser", user="mira", UserName="x")(system)
    assert [u["name"] for u in rows(system, "user") if u["name"] == "x"] == ["x"]


def test_a_key_that_is_not_in_use_opens_nothing(system):
    assert "InvalidAccessKeyId" in refusal(s3("GET", SITE, user="nina"), system)  # its first key
    key = {"UserName": "courier", "AccessKeyId": "AKIAFERNWAYCOURIER01"}
    read = s3("GET", "/fernway-intake/courier/2026-10-13.txt", user="courier")
    read(system)
    iam("UpdateAccessKey", **key, Status="Inactive")(system)
    assert "InvalidAccessKeyId" in refusal(read, system)
    iam("DeleteAccessKey", **key)(system)
    assert "InvalidAccessKeyId" in refusal(read, system)


def test_a_false_signature_opens_nothing(system):
    thief = signed(system, "mira")
    thief._secret = "guessed"
    with pytest.raises(ToolError, match="SignatureDoesNotMatch"):
        thief.form("account", "iam", "ListUsers", {})


def test_visitors_read_what_is_public_and_nothing_else(system):
    assert visit(system, f"{SITE}/assets/map.css") == (200, b"main { color: #264 }")
    for path in (f"{SITE}/press/kit-2027.txt", f"{SITE}/assets/none", SITE, "/", f"{SITE}?policy="):
        assert visit(system, path)[0] == 403
    assert visit(system, f"{SITE}/assets/map.css", "DELETE")[0] == 403
    # Its access list is public, and the bucket's block ignores access lists.
    assert visit(system, f"{REPORTS}/internal/salaries.txt")[0] == 403
    s3("DELETE", REPORTS, "publicAccessBlock=")(system)
    assert visit(system, f"{REPORTS}/internal/salaries.txt")[0] == 200
    opened = {
        (p["principal"], p["action"], p["resource"])
        for p in rows(system, "permission")
        if p["principal"] == "*"
    }
    assert ("*", "s3:GetObject", "arn:aws:s3:::fernway-reports/internal/salaries.txt") in opened


@pytest.mark.parametrize(
    "path",
    ["/moto-api/reset", "/moto-api/data.json", "/latest/meta-data/iam", "/moto-api/reset-auth"],
)
def test_the_servers_own_interface_is_there_for_nobody(system, path):
    assert visit(system, path, "POST")[0] == 404
    assert system.verify()[1] == ()


def test_other_services_regions_and_accounts_are_not_there(system):
    scope = "AWS4-HMAC-SHA256 Credential=AKIAFERNWAYAGENT0001/20261126/{}/aws4_request, "
    rest = f"SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
    for asked, status in (("us-east-1/ec2", 404), ("eu-west-1/sqs", 403), ("us-east-1/iam", 403)):
        said = {"Authorization": scope.format(asked) + rest, "X-Amz-Date": "20261126T000000Z"}
        assert visit(system, "/", "POST", **said)[0] == status
    system.reset()
    said = {"Authorization": "AWS AKIAFERNWAYAGENT0001:old"}
    assert visit(system, "/", **said)[0] == 400
    assert visit(system, f"{SITE}/drafts/prices.txt", **{"x-moto-account-id": "1" * 12})[0] == 403
    assert system.verify()[1] == ()


def test_every_trial_has_secrets_of_its_own_and_the_last_ones_open_nothing(system):
    before = signed(system)
    system.reset()
    before.host = signed(system).host
    with pytest.raises(ToolError, match="SignatureDoesNotMatch"):
        before.form("account", "iam", "ListUsers", {})
    system.reset()
    assert system.verify()[1] == ()


def test_a_server_that_was_killed_is_unsettled_unread_drift_and_there_again_after_a_reset(system):
    system.process.kill()
    assert system.unsettled(0.0) is not None
    with pytest.raises(SourceUnavailable):
        system.sources()[0].read(MemoryChunks(), clock, None)
    assert system.verify()[1][0].what == "its server"
    system.reset()
    assert system.verify()[1] == ()


def test_a_policy_that_widens_what_a_group_may_is_a_permission_of_each_member(system):
    before = {(p["principal"], p["action"]) for p in rows(system, "permission")}
    document = {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}  # fmt: skip
    put = {"GroupName": "interns", "PolicyName": "assets", "PolicyDocument": json.dumps(document)}
    iam("PutGroupPolicy", **put)(system)
    after = {(p["principal"], p["action"]) for p in rows(system, "permission")}
    assert after - before == {("user/lea", "s3:*"), ("user/nina", "s3:*")} - before


def test_an_older_version_that_is_the_default_again_is_more_permission(system):
    policy = "arn:aws:iam::123456789012:policy/read-reports"
    before = {p["action"] for p in rows(system, "permission") if p["principal"] == "user/tomas"}
    iam("SetDefaultPolicyVersion", PolicyArn=policy, VersionId="v1")(system)
    after = {p["action"] for p in rows(system, "permission") if p["principal"] == "user/tomas"}
    assert after - before == {"s3:*"}
    iam("SetDefaultPolicyVersion", PolicyArn=policy, VersionId="v1")(system)
    s3("GET", REPORTS, user="tomas")(system)  # the one that is the default stays it


HOSTILE = [
    ("PUT", f"{SITE}/a%20b/%C3%BC%24%00%22%3Cx%3E.txt", "", b"\x00\xff"),
    ("PUT", f"{SITE}/{'k' * 900}", "", b"{" * 60_000),
    ("PUT", f"{SITE}/large", "", b"x" * 6_000_000),
    ("PUT", LOGS, "policy=", b"no policy"),
    ("PUT", LOGS, "policy=", b"\xff\xfe"),
    (
        "PUT",
        LOGS,
        "policy=",
        b'{"Statement": [{"Effect": "Allow", "Principal": {"AWS": 3}}, null]}',
    ),
    ("PUT", LOGS, "policy=", b'{"Statement": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
    ("PUT", LOGS, "policy=", b'{"Statement": {"Action": "\\ud800", "Effect": "Allow"}}'),
    ("PUT", LOGS, "website=", b"<x>" * 1_000),
]


@pytest.mark.parametrize("request_", HOSTILE, ids=lambda each: f"{each[1][:20]}{each[3][:12]!r}")
def test_whatever_is_written_the_account_is_read_and_the_change_is_seen(system, request_):
    before = state(system).digest()
    method, path, query, body = request_
    with contextlib.suppress(ToolError):  # the server would not have it
        s3(method, path, query, body)(system)
    assert system.unsettled(time.monotonic() + 5) is None
    after = state(system)
    drift = [each for each in system.verify()[1] if "last_used" not in each.what]
    assert bool(drift) == (after.digest() != before)
    system.reset()
    assert state(system).digest() == before


ELSEWHERE = (
    b"<ReplicationConfiguration><Role>arn:aws:iam::123456789012:role/deployer</Role><Rule>"
    b"<Status>Enabled</Status><Priority>1</Priority><Filter/><Destination>"
    b"<Bucket>arn:aws:s3:::elsewhere</Bucket></Destination></Rule></ReplicationConfiguration>"
)
EVENTS = b"<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>"
QUIET = [
    s3("PUT", REPORTS, "replication=", ELSEWHERE),
    s3("PUT", LOGS, "notification=", EVENTS),
    s3("PUT", "/fernway-new", x_amz_object_ownership="ObjectWriter"),
    s3("POST", f"{LOGS}/open", "uploads=", x_amz_storage_class="GLACIER"),
    iam("UpdateLoginProfile", "mira", UserName="tomas", Password="mine now"),
    sqs("SetQueueAttributes", "orders", Attributes={"RedriveAllowPolicy": '{"a": "b"}'}),
]


@pytest.mark.parametrize("step", QUIET)
def test_what_shows_in_no_listing_is_state(system, step):
    before = state(system).digest()
    step(system)
    assert state(system).digest() != before


def test_one_bucket_that_cannot_be_read_leaves_its_types_incomplete():
    found = Rows()
    with found.despite_damage("bucket"):
        found.add("bucket", {"name": "whole"})
        raise AttributeError("a shape that nobody expects")
    assert found.rows["bucket"] == [{"name": "whole"}]
    assert found.more == {"bucket": 1, "permission": 1, "denial": 1}


def test_more_rows_than_are_read_leave_the_type_incomplete_and_no_other(system):
    answer = {"rows": {"user": [{"name": "a"}]}, "more": {"object": 3}}
    found = system.sources()[0].state(answer, MemoryChunks(), None)
    assert found.tables["object"].enumeration.coverage is Coverage.INCOMPLETE
    assert "3 more" in (found.tables["object"].enumeration.cause or "")
    assert found.tables["user"].enumeration.is_complete


def test_messages_are_state_with_what_became_of_them(system):
    sqs("ReceiveMessage", "orders", MaxNumberOfMessages=1, VisibilityTimeout=60)(system)
    received = [
        m for m in rows(system, "queue_message") if m["queue"] == "orders" and m["receives"]
    ]
    assert len(received) == 1
    assert received[0]["hidden_until"] > clock()
    assert received[0]["first_received_at"] <= clock()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1", "cannot be read as a seed"),
        ("at: now", "expected `at`, `agent` and `users`"),
        ("{at: x, agent: a, users: {b: {}}}", "expected a user `a` with a key"),
    ],
)
def test_a_seed_with_a_mistake_says_what_is_wrong(tmp_path, text, message):
    (tmp_path / "seed.yaml").write_text(text)
    with pytest.raises(SandboxError, match=message):
        read_seed(tmp_path / "seed.yaml")


def test_a_seed_that_the_server_does_not_make_says_why(tmp_path):
    (tmp_path / "seed.yaml").write_text(
        '{at: "2026-01-01T00:00:00Z", agent: a, users: {a: {keys: [{id: AKIA}]}}, roles: {r: {}}}'
    )
    source = PackSource("account", "aws", None, {"seed": tmp_path / "seed.yaml"})
    made = EmbeddedAccount(source, (), tmp_path / "work")
    with pytest.raises(SandboxError, match="the seed lacks 'trust'"):
        made.start()


def test_the_agents_url_has_its_own_key_only(system):
    assert "AKIAFERNWAYAGENT0001" in account(system).url
    assert "AKIAFERNWAYMIRA00001" not in account(system).url
