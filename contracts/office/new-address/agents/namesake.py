"""Faulty: the card of Elena Rossi-Bauer gets the address too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

for path in (*steps.CARDS, "/dana/contacts/elena-rossi-bauer.vcf"):
    steps.card(path)
steps.visit()
steps.done(3)
