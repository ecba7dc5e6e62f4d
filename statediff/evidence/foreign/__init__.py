"""Forms of others, read and written with the libraries that define them; each is an extra."""
