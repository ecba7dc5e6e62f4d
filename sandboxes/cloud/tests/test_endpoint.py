"""An account by URL: moto's server as its documentation starts it, changed by boto3."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import boto3
import httpx
import pytest
from statediff_cloud.endpoint import AwsAccount, AwsEndpointSource
from statediff_cloud.sandbox import EmbeddedAccount

from sandboxes.cloud.tests import test_system
from sandboxes.cloud.tests.account import allow
from statediff.capture.source import SourceUnavailable
from statediff.conformance import EndpointSuite, clock, free_port, serving
from statediff.errors import UsageError
from statediff.model.state import MemoryChunks, State

pytestmark = pytest.mark.pack("statediff[cloud]")

WAYS = (
    *("a member", "an older version is in force", "a role", "a policy of a bucket"),
    *("a bucket is public", "the block is off", "a rule", "other sites may ask"),
    "an object is public",
)
"""Ways to leave the sandbox's account."""
SPELLED = frozenset(
    {"account", "credential", "bucket", "queue", "upload", "policy", "lifecycle_rule", "role"}
)
"""Types with settings that the API spells otherwise than moto's memory does, or does not show."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    number = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(number)]
    with serving(command, number, tmp_path_factory.mktemp("moto")):
        yield number


class TestMoto(EndpointSuite):
    gone = "http+aws://key:secret@127.0.0.1:9"
    contract: ClassVar = """
contract: tests/attach-policy
version: 1.0.0
owner: tests
intent: Let lea read reports, by the policy read-reports.
require:
  - id: attached
    link: attachment
    where: it.holder == "user/lea" and it.policy == "read-reports"
allow:
  - id: what-follows
    create: permission
    where: it.principal == "user/lea" and it.action == "s3:GetObject"
"""

    @pytest.fixture
    def url(self, port: int) -> str:
        iam, s3, sqs = (client(port, each) for each in ("iam", "s3", "sqs"))
        httpx.post(f"http://127.0.0.1:{port}/moto-api/reset", trust_env=False)
        s3.create_bucket(Bucket="reports")
        s3.put_object(Bucket="reports", Key="q1.txt", Body=b"1", ContentType="text/plain")
        iam.create_user(UserName="lea")
        stated = [allow("s3:GetObject", "arn:aws:s3:::reports/*")]
        document = json.dumps({"Version": "2012-10-17", "Statement": stated})
        iam.create_policy(PolicyName="read-reports", PolicyDocument=document)
        sqs.create_queue(QueueName="orders")
        return f"http+aws://key:secret@127.0.0.1:{port}"

    def right(self, url: str) -> None:
        arn = "arn:aws:iam::123456789012:policy/read-reports"
        of(url, "iam").attach_user_policy(UserName="lea", PolicyArn=arn)

    def more(self, url: str) -> None:
        of(url, "iam").detach_user_policy(
            UserName="lea", PolicyArn="arn:aws:iam::123456789012:policy/read-reports"
        )
        self.right(url)
        of(url, "s3").put_object_acl(Bucket="reports", Key="q1.txt", ACL="public-read")

    def ways(self, url: str) -> Mapping[str, Callable[[], object]]:
        s3, iam, sqs = (of(url, each) for each in ("s3", "iam", "sqs"))
        [queue] = sqs.list_queues()["QueueUrls"]
        tag = {"TagSet": [{"Key": "a", "Value": "b"}]}
        return {
            "content": lambda: s3.put_object(Bucket="reports", Key="q1.txt", Body=b"2"),
            "a header": lambda: s3.put_object(
                Bucket="reports", Key="q1.txt", Body=b"2", CacheControl="no-store"
            ),
            "a tag": lambda: s3.put_object_tagging(Bucket="reports", Key="q1.txt", Tagging=tag),
            "an upload": lambda: s3.create_multipart_upload(Bucket="reports", Key="large"),
            "a setting": lambda: s3.put_bucket_versioning(
                Bucket="reports", VersioningConfiguration={"Status": "Enabled"}
            ),
            "a key": lambda: iam.create_access_key(UserName="lea"),
            "a message": lambda: sqs.send_message(QueueUrl=queue, MessageBody="x"),
            "a delay": lambda: sqs.set_queue_attributes(
                QueueUrl=queue, Attributes={"DelaySeconds": "7"}
            ),
        }


def client(port: int, service: str, endpoint: str = "") -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint or f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )


def of(url: str, service: str) -> Any:
    return client(0, service, f"http://{url.rpartition('@')[2]}")


def read(source: Any) -> State:
    part = source.read(MemoryChunks(), clock, None)
    assert part.reading.is_complete, part.reading.cause
    return part.state


def test_the_api_shows_what_the_memory_of_the_server_holds(running: EmbeddedAccount) -> None:
    running.reset()
    [memory] = running.sources()
    inside, outside = read(memory), read(AwsEndpointSource("account", running.url_of("ops-agent")))
    for name in outside.tables.keys() - SPELLED:
        assert list(outside.tables[name].rows()) == list(inside.tables[name].rows()), name
    for name in SPELLED:
        assert outside.tables[name].row_count == inside.tables[name].row_count, name


def test_every_way_to_leave_it_is_seen_by_the_api(running: EmbeddedAccount) -> None:
    running.reset()
    listed = AwsAccount("account", running.url_of("ops-agent")).listed
    before = listed()
    for name in WAYS:
        test_system.TestAccount.ways[name].apply(running)
        after = listed()
        assert before.rows != after.rows, name
        before = after


def test_a_refusal_is_a_gap_and_after_the_run_a_change(running: EmbeddedAccount) -> None:
    running.reset()
    url = running.url_of("tomas")  # he may read reports, and no more
    part = AwsEndpointSource("account", url).read(MemoryChunks(), clock, None)
    assert not part.reading.is_complete
    assert "refuses" in (part.reading.cause or "")


def test_a_part_of_an_account_is_read_alone(port: int) -> None:
    source = AwsEndpointSource(
        "a", f"aws+http://k:s@127.0.0.1:{port}/?services=sqs&region=eu-west-1"
    )
    names = {each.name for each in source.schema().types}
    assert "queue" in names
    assert not names & {"bucket", "user"}
    with pytest.raises(UsageError, match="expected some of iam, s3, sqs"):
        AwsEndpointSource("a", "aws+http://localhost?services=ec2")
    with pytest.raises(UsageError, match="expected region or services"):
        AwsEndpointSource("a", "aws+http://localhost?zone=1")


def test_a_wrong_key_is_no_empty_account(running: EmbeddedAccount) -> None:
    url = running.url_of("ops-agent").replace("AKIAFERNWAYAGENT0001", "AKIAFERNWAYNOBODY001")
    with pytest.raises(SourceUnavailable, match="does not say who asks"):
        AwsEndpointSource("a", url).read(MemoryChunks(), clock, None)
