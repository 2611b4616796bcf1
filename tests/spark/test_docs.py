"""The programs of docs/state.md, one after the other, in a process of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]


def test_the_programs_of_the_page_on_state(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "state.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(programs) >= 5
    whole = tmp_path / "state.py"
    whole.write_text("\n".join(programs))
    done = subprocess.run(
        [sys.executable, str(whole)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
