"""A chat on Synapse, the Matrix homeserver: rooms, members, powers, messages and accounts."""
