"""The repository's tests/test_convert.py, from outside the package's process."""

# ruff: noqa: PT009, PT027 - the names of the repository's own tests, which run under unittest

import unittest
from fractions import Fraction

from outside import outside
from tests.quantities import exact

convert = outside("unitkit").convert


class ConvertTest(unittest.TestCase):
    """One unit into another."""

    def test_feet_are_twelve_inches(self):
        """Of a length."""
        self.assertEqual(exact(convert(3, "ft", "in")), 36)

    def test_a_metre_is_a_hundred_centimetres(self):
        """Of the base unit."""
        self.assertEqual(exact(convert(1, "m", "cm")), 100)

    def test_conversion_is_exact(self):
        """No float on the way."""
        self.assertEqual(exact(convert(1, "in", "m")), Fraction(127, 5000))

    def test_there_and_back_is_the_same(self):
        """What came back is sent again."""
        self.assertEqual(exact(convert(convert(7, "ft", "km"), "km", "ft")), 7)

    def test_a_pint_is_a_little_more_than_half_a_litre(self):
        """Of a volume."""
        self.assertEqual(exact(convert(1, "pt", "ml")), Fraction(56826125, 100000))

    def test_length_is_no_mass(self):
        """Of two dimensions."""
        with self.assertRaises(ValueError):
            convert(1, "m", "kg")

    def test_an_unknown_unit_is_named(self):
        """In the message."""
        with self.assertRaisesRegex(ValueError, "furlong"):
            convert(1, "furlong", "m")
