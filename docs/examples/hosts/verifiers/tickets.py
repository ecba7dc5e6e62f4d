"""A taskset: one ticket to close, in a file of the application."""

from collections.abc import Iterator

import verifiers.v1 as vf
from statediff_hosts.verifiers import ContractData, ContractTask

TICKETS = '{"ticket": [{"id": 7, "status": "open"}, {"id": 8, "status": "open"}]}'


class Tickets(vf.Taskset[ContractTask, vf.TasksetConfig]):
    """The same task for three agents."""

    def load(self) -> Iterator[ContractTask]:
        """Every task says which contract judges it, and where the state is."""
        for name in ("careful", "careless", "cut-off"):
            data = ContractData(
                name=name,
                prompt=f"You are {name}. Close ticket 7 in app.json.",
                contract="close-ticket.yaml",
                states={"tables": "app.json"},
                files={"app.json": TICKETS},
            )
            yield ContractTask(data, self.config.task)


__all__ = ["Tickets"]
