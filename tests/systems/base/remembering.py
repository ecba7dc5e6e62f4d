"""A server for the tests of forked ones: it remembers what it is asked, in memory only."""

import os
import sys
import time
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from statediff.systems.base.forking import Control, Order, Serve, run
from statediff.systems.base.wsgi import Counted, LoopbackServer

MEMORY: list[str] = []
SECONDS = 0.4


def application(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Remembers the path; answers with all that it remembers, `/slow` late."""
    MEMORY.append(environ["PATH_INFO"] + environ["wsgi.input"].read().decode())
    if environ["PATH_INFO"] == "/slow":
        time.sleep(SECONDS)
    start("200 OK", [("Content-Type", "text/plain")])
    return [" ".join(MEMORY).encode()]


def work(order: Order) -> None:
    """Takes as long to start as the order says: with the processor, with words, or with neither."""
    until = time.monotonic() + order.get("compute", 0)
    while time.monotonic() < until:
        sum(range(10_000))
    for line in range(order.get("write", 0)):
        sys.stderr.write(f"step {line}\n")
        sys.stderr.flush()
        time.sleep(0.5)
    time.sleep(order.get("hang", 0))


def load(order: Order) -> Serve:
    if "fail" in order:
        sys.exit(order["fail"])
    work(order)
    MEMORY.append(order["base"])

    def serve(trial: Order, control: Control) -> None:
        if "fail" in trial:
            raise ValueError(trial["fail"])
        work(trial)
        counted = Counted(application)
        server = LoopbackServer()
        server.set_app(counted)

        def answer(question: Order) -> Order:
            if "die" in question:
                os._exit(3)
            if "hang" in question:
                time.sleep(60)
            time.sleep(question.get("slow", 0))
            if "bytes" in question:
                question["bytes"] = "x" * question["bytes"]
            return {"in_progress": counted.in_progress, **question}

        control.ready({"port": server.server_port, "pid": os.getpid()}, answer)
        server.serve_forever()

    return serve


if __name__ == "__main__":
    run(load)
