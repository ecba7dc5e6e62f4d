"""The repository's tests/test_quantity.py, from outside the package's process."""

# ruff: noqa: PT009, PT027 - the names of the repository's own tests, which run under unittest

import unittest
from fractions import Fraction

from outside import outside
from tests.quantities import parts, quantity

add, negative = outside("operator").add, outside("operator").neg


class QuantityTest(unittest.TestCase):
    """A value with its unit."""

    def test_a_sum_is_in_the_unit_of_the_first(self):
        """Of two units."""
        total = add(quantity(1, "m"), quantity(50, "cm"))
        self.assertEqual(parts(total), (Fraction(3, 2), "m"))

    def test_the_same_quantity_in_two_units(self):
        """As the package itself compares them."""
        self.assertIs(quantity(1, "km").is_same(quantity(1000, "m")), True)

    def test_the_negative_of_a_quantity(self):
        """In its unit."""
        self.assertEqual(parts(negative(quantity(2, "ft"))), (-2, "ft"))

    def test_masses_and_lengths_do_not_add_up(self):
        """Of two dimensions."""
        with self.assertRaises(ValueError):
            add(quantity(1, "m"), quantity(1, "kg"))
