"""What has to be done once before Airflow starts: migrate the database, write the login.

``prepare.py PASSWORD_FILE``: the password goes into the file that Airflow's simple auth manager
reads, ``AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE``, for its owner's eyes only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

USER = "admin"


def main(password_file: str) -> int:
    """Migrate, then write the login; the exit code is that of the migration."""
    migrated = subprocess.run(["airflow", "db", "migrate"]).returncode
    if migrated != 0:
        return migrated
    path = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({USER: Path(password_file).read_text()}, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
