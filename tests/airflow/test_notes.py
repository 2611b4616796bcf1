"""Submissions noted in a checkpoint: one number, one submission."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.contract import Handle, label_of
from airflow_provider_continuous.deploy.notes import FOLDER, KEPT, Notes
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.checkpoint.storage.opening import open_storage
from engine.errors import CheckpointError

FIRST = Handle("local", label_of("/data/orders"), 0, "a_dag.a_task, a_run", submitter=(1, "boot/1"))


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(open_storage(str(tmp_path / "checkpoint")))


def test_of_two_who_submit_at_once_one_does(notes: Notes) -> None:
    assert notes.last() is None
    assert notes.next_number() == 0
    assert notes.take(FIRST)
    assert not notes.take(replace(FIRST, by="somebody else"))

    assert notes.last() == FIRST
    assert notes.next_number() == 1


def test_more_is_known_later(notes: Notes) -> None:
    notes.take(FIRST)

    notes.write(replace(FIRST, pid=7, driver_id="driver-20260101000000-0001"))

    assert notes.last() == replace(FIRST, pid=7, driver_id="driver-20260101000000-0001")


def test_old_notes_go(notes: Notes, tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        assert notes.take(replace(FIRST, number=number))

    folder = tmp_path / "checkpoint" / FOLDER
    assert sorted(int(file.name) for file in folder.iterdir()) == list(range(3, KEPT + 3))
    assert notes.next_number() == KEPT + 3


class Stubborn(LocalStorage):
    def delete(self, name: str) -> None:
        raise CheckpointError(f"{name} stays")


def test_what_cannot_tidy_up_takes_no_number(notes: Notes, tmp_path: Path) -> None:
    """Others would wait for a submission that nobody makes."""
    for number in range(KEPT):
        notes.take(replace(FIRST, number=number))

    with pytest.raises(CheckpointError, match=f"{FOLDER}/0 stays"):
        Notes(Stubborn(tmp_path / "checkpoint")).take(replace(FIRST, number=KEPT))
    assert notes.next_number() == KEPT


def test_the_note_of_the_run_stays(notes: Notes, tmp_path: Path) -> None:
    """However many have failed beside it: it tells what runs, and which files it has."""
    for number in range(2 * KEPT):
        assert notes.take(replace(FIRST, number=number))
        if number in (0, 2):
            notes.write(replace(FIRST, number=number, run_id=f"run-{number}"))

    folder = tmp_path / "checkpoint" / FOLDER
    assert sorted(int(file.name) for file in folder.iterdir()) == [2, *range(KEPT, 2 * KEPT)]


@pytest.mark.parametrize(
    "torn", ["", "{", "[]", '{"label": "x"}', '{"backend": 1, "submitter": 5}']
)
def test_a_torn_note_is_none(notes: Notes, tmp_path: Path, torn: str) -> None:
    notes.take(FIRST)
    (tmp_path / "checkpoint" / FOLDER / "0").write_text(torn)

    assert notes.last() is None
    assert notes.next_number() == 1


def test_what_another_version_has_added_is_left_out() -> None:
    assert Handle.read({**FIRST.to_dict(), "colour": "blue"}) == FIRST


def test_a_checkpoint_has_one_label() -> None:
    assert label_of("s3://bucket/orders/") == label_of("s3://bucket/orders")
    assert label_of("s3://bucket/orders") != label_of("s3://bucket/order")
    assert len(label_of("s3://bucket/orders")) == 31


def test_a_number_that_is_given_again_is_another_name() -> None:
    """A checkpoint was deleted; the cluster still knows what was submitted before."""
    first, second = replace(FIRST, submitted_at=1_700_000_000.0), replace(FIRST, submitted_at=1.8e9)

    assert first.name != second.name
    assert len(f"{first.name}-driver") <= 63, "what Kubernetes takes"
