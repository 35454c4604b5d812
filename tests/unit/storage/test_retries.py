"""Patience: from settings, and handed through to whatever sends requests."""

import pytest

from icestream.model.storage_config import StorageRetriesSettings
from icestream.storage import (
    Storage,
    http_storage,
    in_memory_storage,
    local_filesystem_storage,
    redirect_storage,
    s3_storage,
)
from icestream.storage.http import RedirectStorage
from icestream.storage.object_store import ObjectStorage
from icestream.storage.retries import RetryPolicy
from icestream.testing.doubles import CountingStorage, LatentStorage

PATIENT = RetryPolicy(max_tries=3, initial_backoff_s=0.5, max_backoff_s=2)


def on_s3() -> Storage:
    return s3_storage(bucket="b", prefix="p", region="r", anonymous=True)


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        (None, RetryPolicy()),
        (StorageRetriesSettings(), RetryPolicy()),
        (StorageRetriesSettings(max_tries=3), RetryPolicy(max_tries=3)),
        (
            StorageRetriesSettings(max_tries=3, initial_backoff_ms=500, max_backoff_ms=2000),
            PATIENT,
        ),
        (StorageRetriesSettings(initial_backoff_ms=0), RetryPolicy(initial_backoff_s=0)),
    ],
)
def test_settings_say_how_patient_to_be(
    settings: StorageRetriesSettings | None, policy: RetryPolicy
) -> None:
    assert RetryPolicy.of(settings) == policy


def test_waits_longer_and_longer_up_to_a_ceiling() -> None:
    delays = list(PATIENT.delays_s())

    assert len(delays) == 3
    assert delays[0] == 0
    assert all(0 <= delay <= 2 for delay in delays)


def test_local_storages_need_no_patience() -> None:
    for storage in (in_memory_storage(), local_filesystem_storage("/nowhere")):
        assert storage.with_retries(PATIENT) is storage


@pytest.mark.parametrize("storage", [on_s3(), http_storage("https://host/p")])
def test_remote_storages_are_copied_with_it(storage: Storage) -> None:
    patient = storage.with_retries(PATIENT)

    assert isinstance(patient, ObjectStorage)
    assert isinstance(storage, ObjectStorage)
    assert patient.retry == PATIENT
    assert storage.retry == RetryPolicy()
    assert patient.address == storage.address
    assert patient.read_only == storage.read_only


def test_doubles_stay_the_same_and_pass_it_on() -> None:
    storage = CountingStorage(LatentStorage(on_s3()))

    assert storage.with_retries(PATIENT) is storage
    assert isinstance(storage.backend, ObjectStorage)
    assert storage.backend.retry == PATIENT


def test_a_redirect_passes_it_on_to_where_it_leads() -> None:
    storage = redirect_storage("s3://bucket/prefix?region=r").with_retries(PATIENT)

    assert isinstance(storage, RedirectStorage)
    assert isinstance(storage.backend, ObjectStorage)
    assert storage.backend.retry == PATIENT
