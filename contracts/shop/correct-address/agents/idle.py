"""Faulty: tells the customer that it is done, and changes nothing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as shop

wanted = shop.INPUTS
shop.send(wanted["email"], "Your address", f"We now have {wanted['street']}.\n")
shop.answer(customer=wanted["customer"], email=wanted["email"])
