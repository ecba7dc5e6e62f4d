"""A contract for import-linter: no package's own modules lead back to its `__init__.py`.

`acyclic_siblings` compares the modules of a package with each other, and a package is no sibling of
its modules. A circle that has no two siblings in it runs through such a door.
"""

from __future__ import annotations

import grimp
from importlinter import Contract, ContractCheck, output


class AcyclicDoors(Contract):
    """Broken by a module that imports a package it is in, if that package imports it back."""

    type_name = "acyclic_doors"

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        chains = [
            (module, *chain)
            for module in sorted(graph.modules)
            for door in sorted(graph.find_modules_directly_imported_by(module))
            if module.startswith(f"{door}.")
            and (chain := graph.find_shortest_chain(importer=door, imported=module))
        ]
        return ContractCheck(kept=not chains, metadata={"chains": chains})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for chain in check.metadata["chains"]:
            output.print_error(" -> ".join(chain))
