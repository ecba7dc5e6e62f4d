"""The parts of a run that people are shown, and beside it those for auditors alone."""
