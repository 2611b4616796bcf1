"""Looks at the disk after whatever happened before, and asks the restart table what to do."""

from __future__ import annotations

import logging
