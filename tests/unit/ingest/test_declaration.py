"""Declarations of archives: values, YAML both ways, faults by path."""

from typing import Any

import pytest
import yaml
from tests.ingest_builders import archive, virtual_array

from icestream.errors import ErrorKind, FormatError, InvalidInputError
from icestream.ingest.declaration.archives import (
    Archive,
    Axis,
    Combination,
    OnBroken,
    OnChanged,
    OnMismatch,
    OnVanished,
    ParserChoice,
    PlaceBy,
    Policies,
    Target,
    any_matches,
)
from icestream.ingest.declaration.documents import decode_archive, encode_archive
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.model.manifest_sets import ChunkManifests, ManifestRule, ManifestSet

WHOLE = b"""
version: 1
name: sst
sources: [s3://bucket/sst/, "s3://bucket/more/**/*.nc"]
exclude: ["**/*-draft.nc"]
access:
  - {prefix: "s3://bucket/", region: eu-west-1, requester-pays: true}
  - prefix: s3://other/
    platform: minio
    endpoint-url: http://minio:9000
    anonymous: true
    allow-http: true
    force-path-style: true
  - {prefix: "az://data/", account: ocean}
container: sst
parser:
  name: virtualizarr.parsers:HDFParser
  options: {group: /science}
combine:
  along:
    - dimension: time
      by: coordinate
      coordinate: /valid_time
      step: 1 day
    - dimension: member
      by: name
      pattern: 'm(?P<member>\\d+)\\.nc'
      format: integer
      new: true
  constant: [mask]
loaded: ["*_bnds"]
drop: [history]
time-units: hours since 1970-01-01
policies:
  on-broken: fail
  on-changed: keep
  on-vanished: remove
  on-mismatch: era
target:
  repository: s3://bucket/repo
  branch: ingest
  group: /ocean
  chunk-manifests:
    sets: [{small: {max-manifest-size: 1000}}]
    rules: [{path: ".*/time", target: small}]
  splits: {time: 365}
ledger: s3://bucket/ledger
"""


_SECRET = ("access[0].endpoint-url", "has credentials in it")


def document(**changes: Any) -> bytes:
    tree = {"name": "sst", "sources": ["s3://b/"], "target": {"repository": "repo"}, **changes}
    return yaml.safe_dump(tree).encode()


def faults_of(data: bytes) -> dict[str, str]:
    with pytest.raises(InvalidInputError) as caught:
        decode_archive(data)
    assert caught.value.kind is ErrorKind.INVALID_CONFIG
    lines = caught.value.message.splitlines()[1:]
    return dict(line.strip().split(": ", 1) for line in lines)


def test_a_whole_document_is_read():
    assert decode_archive(WHOLE) == Archive(
        name="sst",
        sources=("s3://bucket/sst/", "s3://bucket/more/**/*.nc"),
        exclude=("**/*-draft.nc",),
        access=(
            SourcePlace(prefix="s3://bucket/", region="eu-west-1", requester_pays=True),
            SourcePlace(
                prefix="s3://other/",
                platform="minio",
                endpoint_url="http://minio:9000",
                anonymous=True,
                allow_http=True,
                force_path_style=True,
            ),
            SourcePlace(prefix="az://data/", account="ocean"),
        ),
        container="sst",
        parser=ParserChoice(name="virtualizarr.parsers:HDFParser", options={"group": "/science"}),
        combine=Combination(
            along=(
                Axis(dimension="time", coordinate="/valid_time", step="1 day"),
                Axis(
                    dimension="member",
                    by=PlaceBy.NAME,
                    pattern=r"m(?P<member>\d+)\.nc",
                    format="integer",
                    new=True,
                ),
            ),
            constant=("mask",),
        ),
        loaded=("*_bnds",),
        drop=("history",),
        time_units="hours since 1970-01-01",
        policies=Policies(
            on_broken=OnBroken.FAIL,
            on_changed=OnChanged.KEEP,
            on_vanished=OnVanished.REMOVE,
            on_mismatch=OnMismatch.ERA,
        ),
        target=Target(
            repository="s3://bucket/repo",
            branch="ingest",
            group="/ocean",
            chunk_manifests=ChunkManifests(
                (ManifestSet("small", max_manifest_size=1000),),
                (ManifestRule("small", ".*/time"),),
            ),
            splits={"time": 365},
        ),
        ledger="s3://bucket/ledger",
    )


def test_what_is_written_is_read_again():
    declared = decode_archive(WHOLE)
    assert decode_archive(encode_archive(declared)) == declared
    assert encode_archive(decode_archive(encode_archive(declared))) == encode_archive(declared)


def test_what_is_as_by_default_is_not_written():
    written = encode_archive(archive())
    assert yaml.safe_load(written) == {
        "version": 1,
        "name": "sst",
        "sources": ["s3://b/"],
        "target": {"repository": "repo"},
    }
    assert decode_archive(written) == archive()


def test_a_parser_may_be_a_single_word_and_sources_a_single_text():
    declared = decode_archive(document(parser="grib", sources="s3://b/*.grib"))
    assert declared.parser == ParserChoice(name="grib")
    assert declared.sources == ("s3://b/*.grib",)


def test_a_parser_that_is_not_there_is_a_fault():
    told = faults_of(document(parser="hdf6"))["parser"]
    assert told.startswith("'hdf6' is none of auto, dmrpp")


def test_files_that_become_groups_of_their_own_stay_virtual_however_small_they_are():
    small = virtual_array("s3://b/a.nc", ("y",), (3,), (3,))
    grouped = Combination(group_per_file="(?P<group>.*)")
    assert archive().loading.wants("/v", small)  # it may be in several files
    assert not archive(combine=grouped).loading.wants("/v", small)


def test_a_step_may_be_a_number():
    declared = decode_archive(document(combine={"along": [{"dimension": "lat", "step": 0.25}]}))
    assert declared.combine.along[0].step == "0.25"


def test_all_faults_are_in_one_error_by_path():
    found = faults_of(
        document(
            name="a b",
            sources=[3],
            policies={"on-mismatch": "ignore"},
            combine={"along": [{"dimension": "time", "by": "name"}, {"dimension": "time"}]},
            target={"branch": "main", "splits": {"time": 0}},
        )
    )
    assert set(found) == {
        "name",
        "sources",
        "sources[0]",
        "policies.on-mismatch",
        "combine.along[0].pattern",
        "combine.along[1].dimension",
        "target.repository",
        "target.splits.time",
    }
    assert found["policies.on-mismatch"].endswith("fail, era, materialise, set-aside")


@pytest.mark.parametrize(
    ("changes", "path", "near"),
    [
        ({"source": ["x"]}, "source", "sources"),
        ({"time_units": "days since 2000-01-01"}, "time_units", "time-units"),
        ({"policies": {"on-mismach": "era"}}, "policies.on-mismach", "on-mismatch"),
        ({"combine": {"along": [{"dimenson": "time"}]}}, "combine.along[0].dimenson", "dimension"),
        ({"target": {"repository": "r", "branh": "x"}}, "target.branh", "branch"),
    ],
)
def test_an_unknown_key_is_refused_with_the_name_nearby(changes, path, near):
    assert f"did you mean {near!r}" in faults_of(document(**changes))[path]


def test_an_unknown_key_like_none_is_refused_with_all_names():
    assert "there are version, name, sources" in faults_of(document(zzz=1))["zzz"]


@pytest.mark.parametrize(
    ("axis", "key", "words"),
    [
        ({"by": "name", "pattern": "("}, "pattern", "not an expression"),
        ({"by": "name", "pattern": r"\d+"}, "pattern", "(?P<time>...)"),
        ({"by": "name", "pattern": r"(?P<time>\d+)"}, "format", "is missing"),
        ({"by": "name", "pattern": r"(?P<time>\d+)", "format": "int"}, "format", "integer"),
        ({"by": "name", "pattern": r"(?P<year>\d+)", "format": "%Y"}, "format", "year, month"),
        ({"pattern": "x"}, "pattern", "by: name"),
        ({"new": True}, "new", "by: name"),
        ({"step": "1 fortnight"}, "step", "fortnight"),
        ({"step": "0 days"}, "step", "not a distance"),
        ({"step": "1.5 months"}, "step", "whole number of months"),
        ({"by": "order", "step": "1 day"}, "step", "no distances"),
        ({"by": "order", "coordinate": "time"}, "coordinate", "by: coordinate"),
        ({"by": "size"}, "by", "coordinate, name, order"),
    ],
)
def test_an_axis_that_makes_no_sense_is_explained(axis, key, words):
    found = faults_of(document(combine={"along": [{"dimension": "time", **axis}]}))
    assert words in found[f"combine.along[0].{key}"]


def test_order_is_for_a_single_dimension():
    axes = [{"dimension": "time", "by": "order"}, {"dimension": "member"}]
    assert "single" in faults_of(document(combine={"along": axes}))["combine.along[0].by"]


@pytest.mark.parametrize(
    ("place", "path", "words"),
    [
        ({}, "access[0].prefix", "is missing"),
        ({"prefix": "s3://b?/"}, "access[0].prefix", "query or fragment"),
        ({"prefix": "s3://b/", "endpoint-url": "http://me:secret@host"}, *_SECRET),
        ({"prefix": "s3://b/", "platform": "nas"}, "access[0]", "'nas'"),
        ({"prefix": "https://h/", "requester-pays": True}, "access[0]", "requester_pays"),
        ({"prefix": "s3://b/", "anonymous": "yes"}, "access[0].anonymous", "'yes'"),
        ({"prefix": "s3://b/", "secret": "x"}, "access[0].secret", "is unknown"),
    ],
)
def test_a_place_that_cannot_be_reached_is_explained(place, path, words):
    assert words in faults_of(document(access=[place]))[path]


def test_a_place_becomes_a_container():
    container = SourcePlace(prefix="s3://b/", region="eu-west-1", anonymous=True).container()

    assert (container.url_prefix, container.region) == ("s3://b/", "eu-west-1")
    assert SourcePlace(prefix="az://data/", account="ocean").container().store.opts == {
        "account_name": "ocean"
    }


def test_files_become_groups_or_are_put_along_dimensions():
    combine = {"along": [{"dimension": "time"}], "group-per-file": r"(?P<group>\w+)\.nc"}
    assert "leave out one" in faults_of(document(combine=combine))["combine.group-per-file"]
    found = faults_of(document(combine={"group-per-file": r"\w+"}))
    assert "(?P<group>...)" in found["combine.group-per-file"]


def test_faults_of_manifest_sets_are_named_below_the_target():
    target = {"repository": "r", "chunk-manifests": {"rules": [{"target": "nowhere"}]}}
    found = faults_of(document(target=target))
    assert found == {"target.chunk-manifests.rules[0].target": "there is no set 'nowhere'"}


def test_units_of_time_that_are_none_are_refused():
    assert "not a unit" in faults_of(document(**{"time-units": "fortnights"}))["time-units"]


def test_a_document_of_a_newer_version_is_refused():
    assert "newer" in faults_of(document(version=2))["version"]


def test_what_is_no_yaml_is_refused():
    with pytest.raises(FormatError, match="mine"):
        decode_archive(b"a: [", name="mine")


def test_an_archive_with_faults_is_not_written():
    with pytest.raises(InvalidInputError, match="sources: is missing"):
        encode_archive(archive(sources=()))


@pytest.mark.parametrize(
    ("pattern", "path", "is_meant"),
    [
        ("lat", "/lat", True),
        ("lat", "/grid/lat", True),
        ("/lat", "/grid/lat", False),
        ("*_bnds", "/time_bnds", True),
        ("lat", "/latitude", False),
    ],
)
def test_variables_are_named_by_name_path_or_pattern(pattern, path, is_meant):
    assert any_matches((pattern,), path) is is_meant
