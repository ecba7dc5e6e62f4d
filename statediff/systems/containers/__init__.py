"""Servers in containers: the engine, images, volumes, processes and ports."""
