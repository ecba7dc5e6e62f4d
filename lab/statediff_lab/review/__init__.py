"""A desk for reviewers: one trial after the other, in a browser, labelled and signed.

* `desk`: which trials, what of each may be seen, and what the reviewer signs
* `unjudged`: a trial without anything that statediff thinks of it
* `pages`: the pages, rendered here and sent whole
* `server`: whom they are served to
"""
