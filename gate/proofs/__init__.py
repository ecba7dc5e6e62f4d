"""The proofs of the gate, each one command: `python -m gate.proofs.agents` and its like."""
