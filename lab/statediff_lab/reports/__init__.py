"""The texts and pages that laboratories print and show."""
