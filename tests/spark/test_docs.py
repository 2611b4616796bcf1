"""The programs of a page of docs/, one after the other, in a process of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize(
    ("page", "programs_min"),
    [("state", 5), ("replay", 1), ("quick-start", 1), ("your-own-connector", 3), ("from-spark", 1)],
)
def test_the_programs_of_a_page(page: str, programs_min: int, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(programs) >= programs_min
    whole = tmp_path / f"{page}.py"
    whole.write_text("\n".join(programs).replace("/tmp/", f"{tmp_path}/"))
    # The quick start says what running it again does.
    for _ in range(2 if page == "quick-start" else 1):
        done = subprocess.run(
            [sys.executable, str(whole)], cwd=ROOT, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-4000:]
