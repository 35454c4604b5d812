"""Datasets that follow a changed definition."""

import pytest

from icestream.errors import InvalidInputError, NotFoundError
from icestream.ledger import SetAttachments, SetInfo, SetTransform, Workspace, read_snapshots
from icestream.ledger.blocks.events import AttachmentEmbedded, AttachmentsEmbedded
from icestream.ledger.blocks.snapshots import DatasetSnapshot
from icestream.ledger.redefining import update_datasets
from icestream.storage.memory import InMemoryStorage


def derivative(name: str, *inputs: str, query: str = "select 1") -> DatasetSnapshot:
    refs = ", ".join(f"{{datasetRef: {given}}}" for given in inputs)
    (found,) = read_snapshots(
        f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs: [{refs}]
    transform: {{kind: Sql, engine: spark, query: {query}}}
  - kind: SetInfo
    description: about {name}
""".encode()
    )
    return found


@pytest.fixture
def workspace() -> Workspace:
    """A chain of four: root, a, b, c."""
    found = Workspace(InMemoryStorage())
    found.create("root")
    found.create_all([derivative("a", "root"), derivative("b", "a"), derivative("c", "b", "root")])
    return found


def test_what_is_new_is_appended_and_nothing_else(workspace: Workspace) -> None:
    before = workspace.open("b").head

    done = update_datasets(
        workspace, [derivative("a", "root"), derivative("b", "a", query="select 2")]
    )

    assert [[type(event) for event in each.events] for each in done] == [[], [SetTransform]]
    b = workspace.open("b")
    assert b.state.transform == done[1].events[0]
    assert [block.block_hash for block in b.blocks()][1] == before


def test_an_update_repeated_writes_nothing(workspace: Workspace) -> None:
    (changed,) = read_snapshots(
        b"""
kind: DatasetSnapshot
version: 1
content:
  name: root
  kind: Root
  metadata:
  - {kind: SetInfo, description: sensors}
  - {kind: AddPushSource, sourceName: feed, read: {kind: NdJson}, merge: {kind: Append}}
  - kind: SetAttachments
    attachments: {kind: Embedded, items: [{path: README.md, content: all of them}]}
"""
    )

    first = update_datasets(workspace, [changed])
    head = workspace.open("root").head
    second = update_datasets(workspace, [changed])

    assert (len(first[0].events), len(second[0].events)) == (3, 0)
    assert workspace.open("root").head == head
    text = AttachmentEmbedded(path="README.md", content="all of them")
    others = SetAttachments(attachments=AttachmentsEmbedded(items=(text, text)))
    with_others = DatasetSnapshot(name=changed.name, kind=changed.kind, metadata=(others,))
    assert update_datasets(workspace, [with_others])[0].events == (others,)


def test_a_circle_is_refused_by_its_way_and_nothing_is_written(workspace: Workspace) -> None:
    heads = [workspace.open(name).head for name in "abc"]
    info = DatasetSnapshot(
        name=derivative("b", "a").name,
        kind=derivative("b", "a").kind,
        metadata=(SetInfo(description="new"),),
    )

    with pytest.raises(InvalidInputError, match="circle: a -> c -> b -> a; let one"):
        update_datasets(workspace, [info, derivative("a", "root", "c")])
    with pytest.raises(InvalidInputError, match="circle: a -> a;"):
        update_datasets(workspace, [derivative("a", "a")])

    assert [workspace.open(name).head for name in "abc"] == heads


def test_readers_may_change_places_in_one_update(workspace: Workspace) -> None:
    update_datasets(workspace, [derivative("a", "b"), derivative("b", "root")])

    a, b = workspace.open("a"), workspace.open("b")
    assert [each.dataset_id for each in workspace.inputs_of(a)] == [b.dataset_id]


def test_wrong_definitions_are_refused_by_name(workspace: Workspace) -> None:
    with pytest.raises(NotFoundError, match="no dataset unknown"):
        update_datasets(workspace, [derivative("unknown", "root")])
    with pytest.raises(InvalidInputError, match="root is a Root dataset, and stays one"):
        update_datasets(workspace, [derivative("root", "a")])
    with pytest.raises(InvalidInputError, match="do not exist: nobody"):
        update_datasets(workspace, [derivative("a", "nobody")])
