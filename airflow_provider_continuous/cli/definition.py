"""``airflow continuous``: the engine's commands, where Airflow's connections can be used.

Locations such as ``s3://my_conn@bucket/orders`` open the storage with a connection; ``list`` shows
the queries below the configured roots.
"""

from __future__ import annotations

from typing import Any

from airflow.cli.cli_config import (
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)

_COMMANDS = "airflow_provider_continuous.cli.commands"


def cli_commands() -> list[CLICommand]:
    """Return the commands (key ``cli`` of the provider's metadata)."""
    checkpoint = _argument("checkpoint", help="path or URL of the query's checkpoint")
    as_json = _argument("--json", help="print one JSON object", action="store_true")
    timeout = _argument(
        "--timeout", help="seconds to wait for the end (60)", type=float, default=60.0
    )
    last = _argument("--last", help="how many (20)", type=_positive, default=20)

    def command(
        name: str, text: str, *args: Arg, function_name: str | None = None
    ) -> ActionCommand:
        function = lazy_load_command(f"{_COMMANDS}.{function_name or name}")
        return ActionCommand(name, text, function, (*args, as_json))

    return [
        GroupCommand(
            name="continuous",
            help="Look after continuous queries",
            subcommands=(
                command(
                    "list",
                    "The queries below the configured roots",
                    function_name="list_queries",
                ),
                command("status", "Who runs a query, and how far it has come", checkpoint),
                command("epochs", "The committed epochs", checkpoint, last),
                command(
                    "drain", "Finish the open epoch of a query, then end it", checkpoint, timeout
                ),
                command("stop", "End a query now", checkpoint, timeout),
            ),
        )
    ]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _argument(*flags: str, **settings: Any) -> Arg:
    return Arg(flags, **settings)  # type: ignore[no-untyped-call]
