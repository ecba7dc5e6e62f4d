"""The tasks of a pack: the name of this module is the taskset's id."""

from statediff_hosts.verifiers_packs import ContractTasks

__all__ = ["ContractTasks"]
