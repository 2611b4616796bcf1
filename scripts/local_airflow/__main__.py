"""``python -m scripts.local_airflow up``: runs one until Ctrl-C, prints its address and login."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from scripts.local_airflow.processes import USER, AirflowProcesses, StandaloneError
from scripts.local_airflow.rest import AirflowApiError


def main(arguments: list[str] | None = None) -> int:
    """Run a local Airflow until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="scripts.local_airflow")
    up = parser.add_subparsers(required=True).add_parser("up", help="run a local Airflow")
    up.add_argument("--home", type=Path, default=Path(".up/airflow"), help="Airflow's home")
    up.add_argument("--dags", type=Path, default=Path("dags"), help="the folder of the DAGs")
    up.add_argument("--port", type=int, default=8080, help="of the web address; 0: a free one")
    chosen = parser.parse_args(arguments)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    airflow = AirflowProcesses(chosen.home, chosen.dags, chosen.port, paused=True)
    print(f"Starting Airflow, logs in {airflow.logs} ...", flush=True)
    try:
        airflow.start().close()
        print(f"Airflow:  {airflow.address}\nLogin:    {USER} / {airflow.password}")
        print("Ctrl-C ends it.", flush=True)
        while not ended.wait(1.0):
            airflow.check()
    except (StandaloneError, AirflowApiError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        airflow.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
