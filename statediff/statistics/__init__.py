"""Statistics of repeated trials and of shares: each figure is computed in one place.

`binomial` is exact: fractions, no approximation. `repeats` counts what repeated trials of one setup
show. Nothing here knows what a trial is: the caller keeps apart what may not be pooled.
"""
