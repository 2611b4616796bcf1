"""A sink that is given to somebody who has the checkpoint of its query."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import write_fingerprint
from engine.errors import ConfigError
from engine.pipeline.given_sink import given_sink
from engine.pipeline.identity import identity


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Its query writes to a table of a database."""
    made = Checkpoint(str(tmp_path))
    said = {"url": "postgresql://me:pass@host/shop", "table": "orders", "libpq.password": "pass"}
    parts = {"sink": {"format": "postgres", "options": identity(said)}}
    write_fingerprint(made.storage, parts)
    return made


def test_the_checkpoint_tells_what_is_not_given(checkpoint: Checkpoint) -> None:
    url = {"URL": "postgresql://you:secret@host/shop"}
    assert given_sink(checkpoint, "Postgres", url) == {**url, "table": "orders"}
    more = {"table": "orders", "connectTimeout": 5, "verify": True}
    assert given_sink(checkpoint, "postgres", more) == {
        "url": "postgresql://host/shop",
        "table": "orders",
        "connectTimeout": "5",
        "verify": "true",
    }


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("postgres", {"table": "others"}, r"postgres\[table=orders\], not .*\[table=others\]"),
        ("postgres", {"url": "postgresql://me:pass@other/shop"}, "//other/shop"),
        ("sqlalchemy", {"table": "orders"}, r"postgres\[\], not to sqlalchemy\[\]"),
    ],
)
def test_another_sink_is_refused(
    name: str, options: dict[str, str], problem: str, checkpoint: Checkpoint
) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        given_sink(checkpoint, name, options)
    assert "pass" not in str(caught.value)


def test_a_checkpoint_that_tells_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert given_sink(checkpoint, "parquet", {"path": "/out"}) == {"path": "/out"}


def test_the_container_of_a_url_is_told(tmp_path: Path) -> None:
    raw, clean, before = (
        f"abfss://{each}account.dfs.core.windows.net/x" for each in ("raw@", "clean@", "")
    )
    for number, (recorded, read) in enumerate(
        [(identity({"path": raw})["path"], raw), (before, before)]
    ):
        made = Checkpoint(str(tmp_path / str(number)))
        write_fingerprint(
            made.storage, {"sink": {"format": "parquet", "options": {"path": recorded}}}
        )
        assert given_sink(made, "parquet", {}) == {"path": read}
        assert given_sink(made, "parquet", {"path": raw}) == {"path": raw}
    with pytest.raises(ConfigError, match="clean@"):
        given_sink(Checkpoint(str(tmp_path / "0")), "parquet", {"path": clean})
