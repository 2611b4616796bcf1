"""A storage over another one: what is written is seen there, and nowhere below."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.storage.opening import prove_create_if_absent
from engine.checkpoint.storage.overlay_storage import OverlayStorage


@pytest.fixture
def below(tmp_path: Path) -> LocalStorage:
    storage = LocalStorage(str(tmp_path))
    storage.create("offsets/3", b"three")
    storage.create("control/lease", b"somebody's")
    return storage


def test_what_is_written_is_seen_above_alone(below: LocalStorage) -> None:
    storage = OverlayStorage(below)
    assert storage.create("offsets/4", b"four")
    assert not storage.create("offsets/3", b"other")
    assert not storage.create("offsets/4", b"other")
    storage.replace("control/lease", b"ours")
    assert storage.read("offsets/4") == b"four"
    assert storage.read("control/lease") == b"ours"
    assert sorted(info.name for info in storage.list("offsets")) == ["3", "4"]
    assert sorted(storage.files_below("")) == ["control/lease", "offsets/3", "offsets/4"]
    assert storage.info("offsets/4").size == 4
    assert [info.name for info in below.list("offsets")] == ["3"]
    assert below.read("control/lease") == b"somebody's"


def test_what_is_deleted_is_gone_above_alone(below: LocalStorage) -> None:
    storage = OverlayStorage(below)
    storage.delete("offsets/3")
    assert not storage.exists("offsets/3")
    assert storage.list("offsets") == []
    with pytest.raises(FileNotFoundError):
        storage.read("offsets/3")
    assert storage.create("offsets/3", b"again")
    assert storage.read("offsets/3") == b"again"
    storage.delete_all()
    assert not storage.files_below("")
    assert below.read("offsets/3") == b"three"


def test_what_is_not_shown_is_not_there(below: LocalStorage) -> None:
    storage = OverlayStorage(below, lambda name: name.startswith("offsets/"))
    assert not storage.exists("control/lease")
    assert storage.create("control/lease", b"ours")
    assert sorted(storage.files_below("")) == ["control/lease", "offsets/3"]
    prove_create_if_absent(storage)
