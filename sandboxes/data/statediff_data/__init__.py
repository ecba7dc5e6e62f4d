"""Databases by SQLAlchemy and files at URLs by fsspec, as states of statediff."""
