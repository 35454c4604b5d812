"""Variables that reach tasks."""

import os
import pickle

import pytest

from icestream.spark.task_environments import TaskEnvironment

KEYS = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "hidden"}
DRIVER = {**KEYS, "GOOGLE_APPLICATION_CREDENTIALS": "/key.json", "HOME": "/root", "PATH": "/bin"}


def test_only_what_stores_need_is_taken():
    taken = TaskEnvironment.of(DRIVER).variables
    assert set(taken) == {*KEYS, "GOOGLE_APPLICATION_CREDENTIALS"}


def test_credentials_of_a_machine_are_not_mixed_with_others():
    machine = {"AWS_PROFILE": "batch", "HOME": "/home"}
    TaskEnvironment.of(DRIVER | {"AWS_REGION": "eu-west-1"}).apply(machine)
    assert machine == {
        "AWS_PROFILE": "batch",
        "HOME": "/home",
        "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
    }


def test_what_a_machine_knows_of_the_way_to_a_store_it_keeps():
    machine = {"AWS_CA_BUNDLE": "/own.crt"}
    driver = {**KEYS, "AWS_CA_BUNDLE": "/driver.crt", "AWS_ENDPOINT_URL": "http://host"}
    TaskEnvironment.of(driver).apply(machine)
    assert machine == {**KEYS, "AWS_CA_BUNDLE": "/own.crt", "AWS_ENDPOINT_URL": "http://host"}


def test_work_finds_the_variables_in_another_process(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    work = pickle.loads(pickle.dumps(TaskEnvironment(KEYS).around(os.getenv)))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")  # so that it is put back
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert work("AWS_SECRET_ACCESS_KEY") == "hidden"


def test_work_without_variables_stays_as_it_is():
    assert TaskEnvironment().around(len) is len


def test_its_text_shows_no_secrets():
    environment = TaskEnvironment.of(DRIVER)
    assert "hidden" not in repr(environment) + str(environment)
    assert "hidden" not in repr(environment.around(len))
