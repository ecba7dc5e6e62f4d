"""The dashboard: many runs on one page, and the way down to each trial."""
