"""Schemes of URLs that fsspec reads: stores of objects, and places with folders."""

from __future__ import annotations

from typing import Final

STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci"})
"""Stores of objects: a folder there is no more than the beginning of names."""
FOLDERS: Final = frozenset({"sftp", "ssh", "ftp", "smb", "webhdfs", "hdfs", "memory"})
"""Places with folders of their own."""
