"""What is sent along with a submission, and what of it counts there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from airflow_provider_continuous.deploy.shipping import zip_modules


def test_a_folder_without_init_is_a_package_in_a_zip_too(tmp_path: Path) -> None:
    """Many a Python looks for it as an entry of its own."""
    for name in ("shop/orders/prices.py", "shop/pictures/logo.png", "single.py"):
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("ANSWER = 42")

    sent = zip_modules(tmp_path / "lib", tmp_path / "shelf")

    uses = "import single; from shop.orders import prices; print(prices.ANSWER)"
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(sent)!r}); {uses}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("42\n", "")
