"""The two datasets of an archive, and what they say of it."""

import pytest
from tests.ingest_builders import archive
from tests.publishing_builders import World, listing, run

from icestream.errors import FormatError, InvalidInputError
from icestream.ingest.declaration.archives import Target
from icestream.ingest.inventory import record_listing
from icestream.ingest.publishing.checkpoints import (
    RunCheckpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from icestream.ingest.publishing.ledger_side import (
    INGEST_ENGINE,
    declared_archive,
    find_ledger,
    follow_declaration,
    ledger_address,
    open_ledger,
    plan_run,
)
from icestream.ledger.workspace import Workspace
from icestream.storage.memory import InMemoryStorage


def workspace() -> Workspace:
    return Workspace(InMemoryStorage())


def test_the_ledger_is_as_declared_or_beside_the_repository() -> None:
    beside = archive(target=Target(repository="s3://bucket/data/repo/"))

    assert ledger_address(beside) == "s3://bucket/data/repo.ledger"
    assert ledger_address(archive(target=Target(repository="/data/repo"))) == "/data/repo.ledger"
    assert ledger_address(archive(ledger="gs://other/ledger")) == "gs://other/ledger"


@pytest.mark.parametrize("repository", ["s3://bucket", "gs://bucket/", "az://account/container"])
def test_there_is_nothing_beside_a_repository_that_takes_a_whole_bucket(repository: str) -> None:
    with pytest.raises(InvalidInputError, match="say with `ledger`"):
        ledger_address(archive(target=Target(repository=repository)))


def test_a_ledger_is_created_once_and_found_again() -> None:
    place = workspace()
    declared = archive(name="sea_surface")
    assert find_ledger(place, declared) is None

    created = open_ledger(place, declared)
    found = find_ledger(place, declared)

    assert found is not None
    assert open_ledger(place, declared).ingest.dataset_id == created.ingest.dataset_id
    assert found.inventory.dataset_id == created.inventory.dataset_id
    names = [str(entry.alias) for entry in place.datasets()]
    assert names == ["sea-surface.ingest", "sea-surface.inventory"]
    transform = found.ingest.state.transform
    assert transform is not None
    assert transform.transform.engine == INGEST_ENGINE
    assert declared_archive(found) == declared


def test_a_ledger_whose_creation_was_cut_off_is_completed() -> None:
    place = workspace()
    inventory = open_ledger(place, archive()).inventory
    place.delete("sst.ingest")

    completed = open_ledger(place, archive())

    assert completed.inventory.dataset_id == inventory.dataset_id
    assert declared_archive(completed) == archive()


def test_an_archive_whose_name_differs_only_in_underscores_is_refused() -> None:
    place = workspace()
    open_ledger(place, archive(name="sea_surface"))

    with pytest.raises(InvalidInputError, match="belongs to the archive sea_surface"):
        open_ledger(place, archive(name="sea-surface"))


def test_a_dataset_of_another_engine_is_refused() -> None:
    place = workspace()
    place.create("sst.inventory")
    place.create("sst.ingest")

    with pytest.raises(InvalidInputError, match="is not one of an archive"):
        open_ledger(place, archive())


def test_a_declaration_is_recorded_when_it_changes() -> None:
    ledger = open_ledger(workspace(), archive())
    head = ledger.ingest.head

    assert not follow_declaration(ledger, archive())
    assert not follow_declaration(ledger, archive(ledger="elsewhere"))
    assert ledger.ingest.head == head
    assert follow_declaration(ledger, archive(drop=("history",)))
    assert ledger.ingest.head != head
    assert declared_archive(ledger).drop == ("history",)


def test_a_run_goes_on_under_another_declaration() -> None:
    world = World()
    target = world.target()
    run(target, "a")
    follow_declaration(target.ledger, archive(drop=("history",)))

    run(world.target(), "a", "b")  # whose declaration is the first one again

    assert world.files() == ["a", "b"]
    assert declared_archive(world.target().ledger) == archive()


def test_a_run_is_planned_although_the_inventory_has_nothing_new() -> None:
    world = World()
    run(world.target(), "a")

    plan = plan_run(world.target().ledger)

    assert plan.query_inputs[0].new_block_hash is None
    assert plan.query_inputs[0].prev_offset == 0


def test_there_is_no_plan_without_a_listing() -> None:
    ledger = open_ledger(workspace(), archive())
    with pytest.raises(InvalidInputError, match="record a listing first"):
        plan_run(ledger)

    record_listing(ledger.inventory, listing("a"))

    assert plan_run(ledger).query_inputs[0].new_offset == 0


def test_checkpoints_survive_encoding() -> None:
    checkpoint = RunCheckpoint(number=3, last_commit=None, state=b'\n{"a"\n')

    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"[1]\n", b'{"watermarks":{}}'])
def test_bytes_that_are_no_checkpoint_of_a_run_are_told(data: bytes) -> None:
    with pytest.raises(FormatError, match="is not of a run"):
        decode_checkpoint(data)


def test_a_checkpoint_of_a_newer_version_is_told() -> None:
    data = b'{"icestream-run": 2, "number": 1, "last-commit": 1}\n'

    with pytest.raises(FormatError, match=r"version 2.*install a newer one"):
        decode_checkpoint(data)
