"""Snapshot files: the hierarchy of one version, and the manifests that its arrays use.

Both versions of the specification have the same tables. Spec 1 stores the chunk length of each
dimension, manifest files as structs and metadata as MessagePack; spec 2 stores the number of
chunks, manifest files as tables and metadata as FlexBuffers. A file says itself which it is.
"""

import struct
from collections.abc import Iterable

from icestream.codec.flatbuffer import FlatReader, FlatWriter, TableType
from icestream.codec.header import FileType, decode_body, encode_file
from icestream.codec.metadata_items import read_metadata, write_metadata
from icestream.errors import ErrorKind, FormatError
from icestream.model.ids import ManifestId, NodeId, SnapshotId, id_text
from icestream.model.manifests import ManifestFile
from icestream.model.nodes import ArrayNode, DimensionShape, GroupNode, ManifestRef, Node
from icestream.model.snapshots import Snapshot

_SPEC_1 = 1

_SNAPSHOT = TableType(
    "Snapshot",
    "id 12s!",
    "parent_id 12s",
    "nodes &!",
    "flushed_at Q",
    "message &!",
    "metadata &!",
    "manifest_files &!",
    "manifest_files_v2 &",
    "extra &",
)
_NODE = TableType(
    "NodeSnapshot",
    "id 8s!",
    "path &!",
    "user_data &!",
    "node_data_type B",
    "node_data &!",
    "extra &",
)
_ARRAY = TableType("ArrayNodeData", "shape &!", "dimension_names &", "manifests &!", "shape_v2 &")
_GROUP = TableType("GroupNodeData")
_DIMENSION_V2 = TableType("DimensionShapeV2", "array_length Q", "num_chunks I")
_DIMENSION_NAME = TableType("DimensionName", "name &")
_MANIFEST_REF = TableType("ManifestRef", "object_id 12s!", "extents &!")
_MANIFEST_FILE_V2 = TableType(
    "ManifestFileInfoV2", "id 12s!", "size_bytes Q", "num_chunk_refs I", "extra &"
)

# members of the union NodeData
_IS_ARRAY = 1
_IS_GROUP = 2

_DIMENSION_V1 = struct.Struct("<QQ")
_MANIFEST_FILE_V1 = struct.Struct("<12s4xQI4x")
_RANGE = struct.Struct("<II")


# -- writing --------------------------------------------------------------------------------------


def encode_snapshot(snapshot: Snapshot, *, spec: int, level: int) -> bytes:
    """Return the file of a snapshot.

    Raises:
        FormatError: The value cannot be expressed in this version of the format, or an array
            uses a manifest that the snapshot does not list.
    """
    _check_manifests(snapshot)
    body = _SnapshotWriter(spec).snapshot(snapshot)
    return encode_file(body, FileType.SNAPSHOT, spec, level=level)


def _check_manifests(snapshot: Snapshot) -> None:
    for node in snapshot.nodes.values():
        if isinstance(node, GroupNode):
            continue
        for ref in node.manifests:
            if ref.manifest_id not in snapshot.manifest_files:
                raise FormatError(
                    f"snapshot {id_text(snapshot.id)}: {node.path} uses manifest "
                    f"{id_text(ref.manifest_id)}, which manifest_files does not list",
                    kind=ErrorKind.INCONSISTENT_MANIFESTS,
                )


class _SnapshotWriter(FlatWriter):
    def __init__(self, spec: int) -> None:
        super().__init__()
        self._spec = spec
        self._empty = self.vector(b"")
        # many arrays have one of few shapes: written once, they make files small and quick to read
        self._shapes: dict[tuple[DimensionShape, ...], int] = {}
        self._names: dict[tuple[str | None, ...], int] = {}

    def snapshot(self, snapshot: Snapshot) -> bytes:
        files_v1, files_v2 = self._write_files(snapshot.manifest_files.values())
        # code point order is the order of the UTF-8 bytes: readers search by bisection
        nodes = [self._write_node(snapshot.nodes[path]) for path in sorted(snapshot.nodes)]
        root = self.table(
            _SNAPSHOT,
            snapshot.id,
            snapshot.parent_id if self._spec == _SPEC_1 else None,
            self.offsets(nodes),
            snapshot.flushed_at,
            self.string(snapshot.message),
            write_metadata(self, snapshot.metadata, self._spec),
            files_v1,
            files_v2,
            None if snapshot.extra is None else self.vector(snapshot.extra),
        )
        return self.finish(root)

    def _write_files(self, files: Iterable[ManifestFile]) -> tuple[int, int | None]:
        ordered = sorted(files, key=lambda file: file.id)
        rows = [(file.id, file.size_bytes, file.num_refs) for file in ordered]
        if self._spec == _SPEC_1:
            return self.structs(_MANIFEST_FILE_V1, rows, alignment=8), None
        tables = [self.table(_MANIFEST_FILE_V2, *row) for row in rows]
        return self._empty, self.offsets(tables)

    def _write_node(self, node: Node) -> int:
        if isinstance(node, ArrayNode):
            kind, content = _IS_ARRAY, self._write_array(node)
        else:
            kind, content = _IS_GROUP, self.table(_GROUP)
        user_data = self.vector(node.user_data)
        return self.table(_NODE, node.id, self.string(node.path), user_data, kind, content)

    def _write_array(self, node: ArrayNode) -> int:
        names = None if node.dimension_names is None else self._write_names(node.dimension_names)
        manifests = self.offsets(
            [
                self.table(_MANIFEST_REF, ref.manifest_id, self.structs(_RANGE, ref.extents))
                for ref in node.manifests
            ]
        )
        if self._spec == _SPEC_1:
            return self.table(_ARRAY, self._write_shape_v1(node), names, manifests)
        shape_v2 = self._write_shape_v2(node.shape)
        return self.table(_ARRAY, self._empty, names, manifests, shape_v2)

    def _write_shape_v1(self, node: ArrayNode) -> int:
        if any(dimension.chunk_length is None for dimension in node.shape):
            raise FormatError(
                f"{node.path}: spec version 1 stores one chunk length per dimension, and this "
                "array has none; upgrade the repository to spec version 2",
                kind=ErrorKind.UNSUPPORTED_OPERATION_FOR_VERSION,
            )
        rows = [(dimension.array_length, dimension.chunk_length) for dimension in node.shape]
        return self.structs(_DIMENSION_V1, rows, alignment=8)

    def _write_shape_v2(self, shape: tuple[DimensionShape, ...]) -> int:
        handle = self._shapes.get(shape)
        if handle is None:
            tables = [self.table(_DIMENSION_V2, d.array_length, d.num_chunks) for d in shape]
            handle = self._shapes[shape] = self.offsets(tables)
        return handle

    def _write_names(self, names: tuple[str | None, ...]) -> int:
        handle = self._names.get(names)
        if handle is None:
            texts = [self.string(name) if name else None for name in names]
            tables = [self.table(_DIMENSION_NAME, text) for text in texts]
            handle = self._names[names] = self.offsets(tables)
        return handle


# -- reading --------------------------------------------------------------------------------------


def decode_snapshot(data: bytes, *, name: str, expected_id: SnapshotId | None = None) -> Snapshot:
    """Return the snapshot in a file.

    Args:
        data: The whole file.
        name: What to call the file in errors.
        expected_id: The snapshot that the file must hold, if known.

    Raises:
        FormatError: The file is damaged, or holds something else.
    """
    spec, body = decode_body(data, FileType.SNAPSHOT, name=name)
    return _SnapshotReader(body, name, spec).snapshot(expected_id)


class _SnapshotReader(FlatReader):
    def __init__(self, data: bytes, name: str, spec: int) -> None:
        super().__init__(data, name)
        self._spec = spec
        # what arrays share in the file, they share in memory
        self._shapes: dict[int, tuple[DimensionShape, ...]] = {}
        self._names: dict[int, tuple[str | None, ...]] = {}
        self._texts: dict[int, str] = {}

    def snapshot(self, expected_id: SnapshotId | None) -> Snapshot:
        id_, parent_id, nodes, flushed_at, message, metadata, files, files_v2, extra = (
            self.read_root(_SNAPSHOT)
        )
        if expected_id not in (None, id_):
            raise self.wrong("Snapshot.id", f"the file holds snapshot {id_text(id_)}")
        return Snapshot(
            id=SnapshotId(id_),
            parent_id=SnapshotId(parent_id) if parent_id and self._spec == _SPEC_1 else None,
            flushed_at=self.check_micros(flushed_at, "Snapshot.flushed_at"),
            message=self.string(message, "Snapshot.message"),
            metadata=read_metadata(self, metadata, self._spec),
            nodes=self._read_nodes(nodes),
            manifest_files=self._read_files_v2(files_v2)
            if files_v2
            else self._read_files_v1(files),
            extra=self.vector(extra, "Snapshot.extra") if extra else None,
        )

    def _read_nodes(self, start: int) -> dict[str, Node]:
        nodes = [self._read_node(at) for at in self.positions(start, "Snapshot.nodes")]
        by_path = {node.path: node for node in nodes}
        if len(by_path) < len(nodes):
            raise self.wrong("Snapshot.nodes", "a path is there twice")
        paths = list(by_path)
        return by_path if paths == sorted(paths) else {p: by_path[p] for p in sorted(paths)}

    def _read_node(self, position: int) -> Node:
        id_, path_at, user_data, kind, content, _ = self.read(position, _NODE)
        path = self.string(path_at, "NodeSnapshot.path")
        document = self.vector(user_data, "NodeSnapshot.user_data")
        if kind == _IS_ARRAY:
            return self._read_array(content, NodeId(id_), path, document)
        if kind == _IS_GROUP:
            self.read(content, _GROUP)
            return GroupNode(NodeId(id_), path, document)
        raise self.wrong("NodeSnapshot.node_data_type", f"{path} is of unknown kind {kind}")

    def _read_array(self, content: int, node_id: NodeId, path: str, user_data: bytes) -> ArrayNode:
        shape_v1, names_at, manifests, shape_v2 = self.read(content, _ARRAY)
        shape = self._read_shape_v2(shape_v2) if shape_v2 else self._read_shape_v1(shape_v1, path)
        names = self._read_names(names_at) if names_at else None
        if names is not None and len(names) != len(shape):
            raise self.wrong(
                "ArrayNodeData.dimension_names",
                f"{path} has {len(names)} names for {len(shape)} dimensions",
            )
        refs = self.positions(manifests, "ArrayNodeData.manifests")
        return ArrayNode(
            node_id, path, user_data, shape, names, tuple([self._read_ref(at) for at in refs])
        )

    def _read_shape_v1(self, start: int, path: str) -> tuple[DimensionShape, ...]:
        packed = self.vector(start, "ArrayNodeData.shape", _DIMENSION_V1.size)
        dimensions = []
        for array_length, chunk_length in _DIMENSION_V1.iter_unpack(packed):
            if array_length and not chunk_length:
                raise self.wrong("ArrayNodeData.shape", f"{path} has a chunk length of 0")
            num_chunks = -(-array_length // chunk_length) if array_length else 0
            dimensions.append(DimensionShape(array_length, num_chunks, chunk_length))
        return tuple(dimensions)

    def _read_shape_v2(self, start: int) -> tuple[DimensionShape, ...]:
        shape = self._shapes.get(start)
        if shape is None:
            rows = self.positions(start, "ArrayNodeData.shape_v2")
            shape = tuple([DimensionShape(*self.read(at, _DIMENSION_V2)) for at in rows])
            self._shapes[start] = shape
        return shape

    def _read_names(self, start: int) -> tuple[str | None, ...]:
        names = self._names.get(start)
        if names is None:
            rows = self.positions(start, "ArrayNodeData.dimension_names")
            names = self._names[start] = tuple([self._read_name(at) for at in rows])
        return names

    def _read_name(self, position: int) -> str | None:
        (start,) = self.read(position, _DIMENSION_NAME)
        if not start:
            return None
        text = self._texts.get(start)
        if text is None:
            text = self._texts[start] = self.string(start, "DimensionName.name")
        return text or None

    def _read_ref(self, position: int) -> ManifestRef:
        manifest_id, extents = self.read(position, _MANIFEST_REF)
        ranges = self.vector(extents, "ManifestRef.extents", _RANGE.size)
        return ManifestRef(ManifestId(manifest_id), tuple(_RANGE.iter_unpack(ranges)))

    def _read_files_v1(self, start: int) -> dict[ManifestId, ManifestFile]:
        packed = self.vector(start, "Snapshot.manifest_files", _MANIFEST_FILE_V1.size)
        return _by_id([ManifestFile(*row) for row in _MANIFEST_FILE_V1.iter_unpack(packed)])

    def _read_files_v2(self, start: int) -> dict[ManifestId, ManifestFile]:
        rows = self.positions(start, "Snapshot.manifest_files_v2")
        return _by_id([ManifestFile(*self.read(at, _MANIFEST_FILE_V2)[:3]) for at in rows])


def _by_id(files: list[ManifestFile]) -> dict[ManifestId, ManifestFile]:
    return {file.id: file for file in sorted(files, key=lambda file: file.id)}
