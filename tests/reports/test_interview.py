"""The questions of a draft on a page, answered by a browser's requests."""

import re
import threading
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from statediff.reports.interview import InterviewServer, Question

HARMFUL = Question(
    "t.token", "May <b>it</b>?", ("tok-1", "tok-2"), "matches(it.token)", ("tok-!",), (0, 1)
)
LAST = Question("t.note", "May it be filled?", (), "as the runs left it", ("a", "b"), (-1, 9))


@pytest.fixture
def server() -> Iterator[InterviewServer]:
    made = InterviewServer("drafts/first")
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def send(server: InterviewServer, origin: str = "", **fields: object) -> str:
    request = Request(
        f"{server.origin}{server.root}/",
        urlencode(fields).encode(),
        {"Origin": origin or server.origin},
    )
    with urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def test_questions_are_shown_in_turn_and_the_answers_come_back(server: InterviewServer) -> None:
    said: list[bool] = []

    def ask() -> None:
        said.extend(server.ask(n, 2, each) for n, each in enumerate((HARMFUL, LAST), 1))
        server.finish(10)

    asking = threading.Thread(target=ask)
    asking.start()
    with urlopen(server.link, timeout=30) as opened:
        page = opened.read().decode()
    assert "May &lt;b&gt;it&lt;/b&gt;?" in page
    assert re.findall(r'<p class="v">(.*?)</p>', page) == ["tok-1", "tok-2"]
    assert 'value="no" autofocus' in page, "the strict side is the default"
    page = send(server, number=1, answer="yes")
    assert "May it be filled?" in page
    assert "May it be filled?" in send(server, number=1, answer="no"), "it was answered"
    page = send(server, number=2, answer="no")
    assert "That was the last question" in page
    asking.join(20)
    assert said == [True, False]


@pytest.mark.parametrize(
    ("origin", "answer", "status"),
    [("http://127.0.0.1:1", "yes", 403), ("", "perhaps", 400)],
)
def test_an_answer_is_a_form_of_this_page(
    server: InterviewServer, origin: str, answer: str, status: int
) -> None:
    with pytest.raises(HTTPError) as refused:
        send(server, origin, number=1, answer=answer)
    assert refused.value.code == status
    refused.value.close()
