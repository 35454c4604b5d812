import pickle

import pytest

from icestream.errors import InvalidInputError
from icestream.model.attribution import Attribution
from icestream.model.feature_flags import FeatureFlag


@pytest.mark.parametrize(
    "labels",
    [
        {"client": "weatherlib/0.9"},
        {"client": "x" * 128},
        {"workload": "nightly ingest"},
        {"workload": ""},
        {"principal": "a@b/c"},
        {},
    ],
)
def test_labels_that_a_header_can_carry_are_accepted(labels: dict[str, str]):
    attribution = Attribution(**labels)

    assert pickle.loads(pickle.dumps(attribution)) == attribution


@pytest.mark.parametrize(
    "labels",
    [
        {"client": "a b"},
        {"client": "a/b/c"},
        {"client": "x/"},
        {"client": "/1"},
        {"client": ""},
        {"client": "a/1é"},
        {"client": "x" * 129},
        {"workload": "a;b"},
        {"workload": "é"},
        {"workload": "a\tb"},
        {"workload": "x" * 129},
        {"principal": 'a"b'},
    ],
)
def test_labels_that_icechunk_refuses_are_refused(labels: dict[str, str]):
    with pytest.raises(InvalidInputError, match=next(iter(labels))):
        Attribution(**labels)


@pytest.mark.parametrize(
    ("default", "setting", "enabled"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_a_flag_is_on_by_its_setting_or_else_its_default(
    default: bool,  # noqa: FBT001  a value
    setting: bool | None,  # noqa: FBT001  a value
    enabled: bool,  # noqa: FBT001  a value
):
    flag = FeatureFlag(id=3, name="move_node", default_enabled=default, setting=setting)

    assert flag.enabled is enabled
