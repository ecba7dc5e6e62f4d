"""The repository's tests/test_temperature.py, from outside the package's process."""

# ruff: noqa: PT009 - the names of the repository's own tests, which run under unittest

import unittest
from fractions import Fraction

from outside import outside
from tests.quantities import exact

convert_temperature = outside("unitkit.temperature").convert_temperature
convert_difference = outside("unitkit.temperature").convert_difference


class TemperatureTest(unittest.TestCase):
    """Scales with a zero of their own."""

    def test_water_boils(self):
        """At its two readings."""
        self.assertEqual(exact(convert_temperature(100, "C", "F")), 212)

    def test_absolute_zero(self):
        """No float on the way."""
        self.assertEqual(exact(convert_temperature(0, "K", "C")), Fraction(-27315, 100))

    def test_forty_below_is_the_same_on_both(self):
        """Where the scales meet."""
        self.assertEqual(exact(convert_temperature(-40, "F", "C")), -40)

    def test_a_difference_has_no_zero(self):
        """It is no reading."""
        self.assertEqual(exact(convert_difference(10, "C", "F")), 18)
