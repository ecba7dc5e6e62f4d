"""The repository's tests/test_parse.py, from outside the package's process."""

# ruff: noqa: PT009, PT027 - the names of the repository's own tests, which run under unittest

import unittest
from fractions import Fraction

from outside import outside
from tests.quantities import parts

parse = outside("unitkit.parse").parse


class ParseTest(unittest.TestCase):
    """Text as quantities."""

    def test_one_number_with_its_unit(self):
        """The simplest text."""
        self.assertEqual(parts(parse("12 cm")), (12, "cm"))

    def test_a_decimal_point(self):
        """Without white space."""
        self.assertEqual(parts(parse("1.25kg")), (Fraction(5, 4), "kg"))

    def test_parts_add_up(self):
        """In the unit of the first."""
        self.assertEqual(parts(parse("5 ft 3 in")), (Fraction(21, 4), "ft"))

    def test_a_negative_number(self):
        """Of one part."""
        self.assertEqual(parts(parse("-2.5 m")), (Fraction(-5, 2), "m"))

    def test_white_space_after_the_sign(self):
        """Is accepted."""
        self.assertEqual(parts(parse("- 2 m")), (-2, "m"))

    def test_the_sign_belongs_to_the_whole(self):
        """Issue #41."""
        self.assertEqual(parts(parse("-1 ft 6 in")), (Fraction(-3, 2), "ft"))

    def test_text_that_is_no_quantity(self):
        """Is refused."""
        for text in ("", "twelve", "3", "3 m!", "m 3"):
            with self.subTest(text), self.assertRaises(ValueError):
                parse(text)
