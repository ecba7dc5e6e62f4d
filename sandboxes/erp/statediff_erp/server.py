"""The ERP's server: Tryton over WSGI on loopback, loaded once and forked for each trial.

`load` imports Tryton and its modules and reads the base, so that a child serves at once. A child
opens the database anew. It has one business date, and nothing of it reaches the outside: no mail,
no worker, no timer.
"""

from __future__ import annotations

import datetime as dt
import gc
import os
from pathlib import Path
from typing import Any

from statediff.systems.base.forking import Control, Order, Serve, run
from statediff.systems.base.wsgi import Counted, LoopbackServer

NOWHERE = "smtp://127.0.0.1:9"


def load(order: Order) -> Serve:
    """`file` is the database as it is in the beginning, `today` the date that the ERP works on."""
    file = Path(order["file"])
    application = loaded(file, dt.date.fromisoformat(order["today"]))

    def serve(trial: Order, control: Control) -> None:
        del trial
        counted = Counted(application)
        server = LoopbackServer()
        server.set_app(counted)

        def answer(question: Order) -> Order:
            del question
            return {"in_progress": counted.in_progress}

        control.ready({"port": server.server_port, "pid": os.getpid()}, answer)
        server.serve_forever()

    return serve


def loaded(file: Path, today: dt.date) -> Any:
    """Tryton's own WSGI application, with the modules of the database in memory."""
    from trytond import backend, config

    config.set("database", "uri", "sqlite://")
    config.set("database", "path", str(file.parent))
    config.set("database", "list", "False")
    config.set("email", "uri", NOWHERE)

    import trytond.ir.date

    trytond.ir.date.Date.today = staticmethod(lambda timezone=None: today)  # noqa: ARG005 - Tryton's

    from trytond.application import app
    from trytond.pool import Pool
    from trytond.res import user
    from trytond.transaction import Transaction

    from statediff_erp.accounts import LANES, MEMORY_KIB, ROUNDS

    user.PASSWORD_HASH = user.pwdlib.PasswordHash(
        (
            user.pwdlib.hashers.argon2.Argon2Hasher(
                time_cost=ROUNDS, memory_cost=MEMORY_KIB, parallelism=LANES
            ),
        )
    )
    pool = Pool(file.stem)
    with Transaction().start(file.stem, 0, readonly=True, close=True):
        pool.init()
    backend.Database.clear_cache()
    gc.collect()  # no connection of the parent is there in a child
    gc.freeze()
    return app


if __name__ == "__main__":
    run(load)
