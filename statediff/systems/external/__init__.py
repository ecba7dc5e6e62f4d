"""Systems of somebody's own, put back by commands of theirs and read where they are."""
