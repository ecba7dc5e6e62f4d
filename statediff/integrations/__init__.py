"""Doors in other programs: pytest and Inspect AI. A door parses, calls the API and renders.

What is imported here is imported by everybody who has the other program installed beside
statediff, used or not; so each module imports statediff when it is asked for something.
"""
