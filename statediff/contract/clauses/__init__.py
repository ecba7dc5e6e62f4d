"""The kinds of clause, a module each; `KINDS` in `contract/document/contract.py` lists them."""
