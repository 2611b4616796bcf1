"""Loads without Iceberg's client."""

from __future__ import annotations

from typing import Final

OWNER: Final = "sink iceberg"
