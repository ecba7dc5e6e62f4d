"""Stage 5: package one judged trial as a bundle from which the decision can be replayed.

This stage decides nothing about the run. What the judging stages read, it keeps; what they did not
read, it does not.
"""
