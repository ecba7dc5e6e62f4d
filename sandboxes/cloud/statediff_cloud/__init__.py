"""Object stores, identities and queues of AWS, served by moto in a process of its own."""
