"""The repository's tests/test_format.py, from outside the package's process."""

# ruff: noqa: PT009 - the names of the repository's own tests, which run under unittest

import unittest
from fractions import Fraction

from outside import outside
from tests.quantities import quantity

format_quantity = outside("unitkit.format").format_quantity


class FormatTest(unittest.TestCase):
    """Quantities as text."""

    def test_places_are_filled_with_zeros(self):
        """Two of them."""
        self.assertEqual(format_quantity(quantity(3, "m")), "3.00 m")

    def test_half_is_rounded_away_from_zero(self):
        """On both sides of it."""
        self.assertEqual(format_quantity(quantity(Fraction(5, 1000), "m")), "0.01 m")
        self.assertEqual(format_quantity(quantity(Fraction(-5, 1000), "m")), "-0.01 m")

    def test_nothing_is_ever_minus_zero(self):
        """However it is rounded."""
        self.assertEqual(format_quantity(quantity(Fraction(-1, 1000), "m")), "0.00 m")

    def test_no_places_no_point(self):
        """A whole number."""
        self.assertEqual(format_quantity(quantity(Fraction(7, 2), "kg"), 0), "4 kg")
