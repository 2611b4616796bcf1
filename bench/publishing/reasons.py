"""What holds up the cases that fall short of their goals, by those who have looked.

A case without an entry is told with the first line of its profile (``python -m bench --profile``).
"""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {}
