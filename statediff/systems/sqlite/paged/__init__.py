"""The fast second look: a later database, read by the pages that differ from kept ones."""
