"""A node view behaves like a dict of nodes, whatever is done to it."""

from hypothesis import given
from hypothesis import strategies as st

from icestream.model.ids import new_node_id
from icestream.model.node_views import NodeView
from icestream.model.nodes import GroupNode
from icestream.model.paths import is_below, parent_of

PARTS = st.sampled_from(["a", "b", "a-b", "a0", "é"])
PATHS = st.one_of(
    st.just("/"),
    st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts)),
)


def group(path: str) -> GroupNode:
    return GroupNode(new_node_id(), path, b"")


@given(
    st.sets(PATHS),
    st.lists(st.tuples(st.sampled_from(["put", "remove", "list"]), PATHS), max_size=30),
    PATHS,
)
def test_edits_listings_and_lookups_agree_with_a_dict(base, steps, below):
    nodes = {path: group(path) for path in base}
    view, model = NodeView(dict(sorted(nodes.items()))), dict(nodes)
    for action, path in steps:
        if action == "put":
            node = group(path)
            view.put(node)
            model[path] = node
        elif action == "remove":
            view.remove(path)
            model.pop(path, None)
        else:
            view.paths()

    assert view.paths() == sorted(model, key=str.encode)
    assert [view.find(path) for path in model] == list(model.values())
    assert view.paths_below(below) == sorted(p for p in model if is_below(p, below))
    assert view.children(below) == sorted(p for p in model if p != "/" and parent_of(p) == below)
