"""Quantities of the tested package, made there, and their exact values, taken here."""

from fractions import Fraction

from outside import outside

_fraction = outside("fractions").Fraction
_quantity = outside("unitkit.quantity").Quantity


def quantity(value, unit):
    """A quantity of the package's own."""
    value = Fraction(value)
    return _quantity(_fraction(value.numerator, value.denominator), unit)


def exact(number):
    """The number that the package returned; whatever is none has no whole parts and raises."""
    numerator, denominator = number.numerator, number.denominator
    if type(numerator) is not int or type(denominator) is not int:
        raise TypeError("the package returned no exact number")
    return Fraction(numerator, denominator)


def parts(found):
    """(value, unit) of a quantity that the package returned."""
    return exact(found.value), found.unit
