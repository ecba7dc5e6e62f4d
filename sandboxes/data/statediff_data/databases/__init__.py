"""Databases without a reader of their own, by the reflection of SQLAlchemy."""
