"""The read side: whether an answer was validly reachable [GE].

Everything here is a function of its arguments: an event log, a corpus of artifacts, an access
policy and an evaluation configuration say what an actor could have known at an instant; a recorded
log of reads says what the agent looked at. Nothing fails open: what is not granted is not seen.
"""
