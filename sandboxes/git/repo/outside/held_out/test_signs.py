"""What issue #41 is about, beyond the one quantity that the test in the repository looks at."""

# ruff: noqa: PT009 - these run as the package's own tests do, under unittest

import unittest
from fractions import Fraction

from outside import outside
from tests.quantities import parts

parse = outside("unitkit.parse").parse


class SignTest(unittest.TestCase):
    """A sign in front belongs to the whole quantity."""

    def test_a_sign_belongs_to_every_part(self):
        """Two parts, in units that differ from those in the repository's test."""
        self.assertEqual(parts(parse("-5 ft 3 in")), (Fraction(-21, 4), "ft"))
        self.assertEqual(parts(parse("-2 kg 250 g")), (Fraction(-9, 4), "kg"))

    def test_a_sign_belongs_to_three_parts(self):
        """More than two parts, in whatever unit the package adds them up."""
        self.assertEqual(parts(parse("-1 km 2 m 50 cm").to("m")), (Fraction(-2005, 2), "m"))

    def test_without_a_sign_all_is_as_before(self):
        """Nothing else moved."""
        self.assertEqual(parts(parse("1 ft 6 in")), (Fraction(3, 2), "ft"))
