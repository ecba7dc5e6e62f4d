"""The read side: what an actor could have read of a captured state, and search within it [GE].

Nothing fails open: what is not granted is not seen. Event logs, questions and their scores are the
laboratory's.
"""
