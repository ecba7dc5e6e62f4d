"""The payment API's own process: localstripe behind a layer of ours, on loopback.

`python -m statediff_payments.server` is loaded once and forked for each trial
(`systems.base.forking`): the seed's story is in memory when it is forked, so that a trial finds
what it says and nothing else. It imports localstripe, so that the evaluator need not. Nothing is
written to disk: localstripe's own file is switched off.

What the evaluator asks of the child:

`{}`                  `in_progress` requests, and `pending` payments that settle later
`{"rows": true}`      all rows (`ledger`), and `n`, the number of the last transaction
`{"since": n}`        the transactions after that one
`{"look": secret}`    the proof's: see `ledger.look`, with the rest that makes the trial

`load` gets the seed, and the salt of its keys' secrets; `serve` gets the secret of the agent's.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, Final

from aiohttp import web
from localstripe import resources, webhooks
from localstripe.server import app

from statediff.systems.base.forking import Control, Order, Serve, run
from statediff_payments.layer import Clock, Layer, install
from statediff_payments.ledger import Ledger, key_named, look
from statediff_payments.seed import plant

AGENT_KEY: Final = "desk"
"""The name of the agent's key in the seed."""
MAX_BODY_BYTES: Final = 256 * 1024
_ANSWER_SECONDS: Final = 60.0


class _Later:
    """Payments that settle a moment later; each is recorded when it does."""

    def __init__(self) -> None:
        self.pending = 0
        self.ledger: Ledger | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def ensure_future(self, work: Coroutine[Any, Any, None]) -> None:
        if self.ledger is None:
            work.close()  # the seed's events go nowhere
            return
        task = asyncio.get_running_loop().create_task(self._do(work, self.ledger))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, work: Coroutine[Any, Any, None], ledger: Ledger) -> None:
        self.pending += 1
        try:
            await work
        finally:
            self.pending -= 1
            ledger.record()


def load(order: Order) -> Serve:
    """The program with the seed's story, not yet served."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    clock, later = Clock(), _Later()
    resources.Store.dump_to_disk = lambda _self: None
    resources.time = clock
    resources.asyncio = SimpleNamespace(ensure_future=later.ensure_future, sleep=asyncio.sleep)
    # Events are kept; no address can be given to which they would be sent.
    webhooks.asyncio = SimpleNamespace(ensure_future=lambda work: work.close())
    install(app)
    plant(order["seed"], order["salt"], clock)
    lost = order["seed"].get("lost_answers", [])

    def serve(trial: Order, control: Control) -> None:
        asyncio.run(_serve(trial, control, clock, later, lost))

    return serve


async def _serve(
    trial: Order, control: Control, clock: Clock, later: _Later, lost: list[dict[str, Any]]
) -> None:
    random.seed()  # localstripe's ids: each fork would begin where the others did
    key_named(AGENT_KEY)._secret = trial["secret"]
    clock.start()
    later.ledger = ledger = Ledger()
    layer = Layer(ledger.record, lost)
    app._client_max_size = MAX_BODY_BYTES
    app.middlewares.insert(0, layer.guard)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    loop = asyncio.get_running_loop()

    async def told(question: Order) -> Order:
        found: Order = {"in_progress": layer.in_progress, "pending": later.pending}
        if "rows" in question:
            found |= {"rows": ledger.rows(), "n": len(ledger.transactions)}
        if "since" in question:
            found["transactions"] = ledger.transactions[question["since"] :]
        if "look" in question:
            rest = {"answers to be lost": str(layer.lost_left), "transactions": _count(ledger)}
            found["look"] = {**look(question["look"]), **rest}
        return found

    def answer(question: Order) -> Order:
        return asyncio.run_coroutine_threadsafe(told(question), loop).result(_ANSWER_SECONDS)

    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]  # it was started
    control.ready({"port": port}, answer)
    await asyncio.Event().wait()


def _count(ledger: Ledger) -> str:
    return str(len(ledger.transactions))


if __name__ == "__main__":
    run(load)
