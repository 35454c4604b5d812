"""The way in: one file of any known format, scanned."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from icestream.errors import ErrorKind, IcestreamError, InvalidInputError, SourceError
from icestream.parsers.array_values import read_values
from icestream.parsers.file_contents import FileContents, Loading, Parser, wanted_paths, without
from icestream.parsers.foreign_faults import told, translated
from icestream.parsers.formats import HEAD_BYTES, FileFormat, format_of_file, format_of_folder
from icestream.parsers.scanned_files import ScannedFile, ScanProblem
from icestream.parsers.source_files import ChecksumChoice, FindObject, SourceFile

AUTO = "auto"
"""The parser is found by the first bytes of a file and by its name."""

type AnyParser = str | Callable[[str, Any], Any]
"""The name of a format, `package.module:attribute`, or a parser of VirtualiZarr."""

_ADAPTER = "icestream.parsers.virtualizarr_adapter:adapted"
_NATIVE: Mapping[FileFormat, str] = {
    FileFormat.HDF5: "icestream.parsers.hdf5.scanning:scan_hdf5",
    FileFormat.NETCDF3: "icestream.parsers.netcdf3:scan_netcdf3",
    FileFormat.KERCHUNK_PARQUET: "icestream.parsers.kerchunk_parquet:scan_kerchunk_parquet",
    FileFormat.GRIB: "icestream.parsers.grib.scanning:scan_grib",
    FileFormat.TIFF: "icestream.parsers.tiff.scanning:scan_tiff",
    FileFormat.FITS: "icestream.parsers.fits:scan_fits",
}
VIRTUALIZARR_PARSERS: Mapping[str, str] = {
    FileFormat.DMRPP: "virtualizarr.parsers:DMRPPParser",
    FileFormat.KERCHUNK_JSON: "virtualizarr.parsers:KerchunkJSONParser",
    FileFormat.ZARR: "virtualizarr.parsers:ZarrParser",
}
"""By format, those that are taken as they are."""
FOLDER_FORMATS: frozenset[str] = frozenset({FileFormat.ZARR, FileFormat.KERCHUNK_PARQUET})
"""Whose files are folders."""


def scan_file(
    url: str,
    *,
    parser: AnyParser = AUTO,
    find_object: FindObject | None = None,
    loading: Loading | None = None,
    checksums: ChecksumChoice = "auto",
) -> ScannedFile:
    """Return the metadata and references of one file; only its headers are read.

    Args:
        url: Of the file; a local one may be given as a path.
        parser: "auto", the name of a format, `package.module:attribute`, or a parser as
            VirtualiZarr has them: a callable `(url, registry) -> ManifestStore`.
        find_object: How to reach the file; by default what the environment offers.
        loading: Which arrays are read as well; by default those of coordinates.
        checksums: What references record of the file, so that later changes are noticed.

    Raises:
        NotFoundError: The file is not there.
        SourceError: It cannot be scanned, or was changed meanwhile.
        StorageError: Its store fails.
    """
    source, name = _opened(url, parser, find_object)
    source = replace(source, checksums=checksums)
    parse = parser_of(name if isinstance(parser, str) else parser)
    loading = loading or Loading()
    with translated(partial(_unreadable, source, name)):
        contents = parse(source, loading)
    _check_ends(source, contents)
    _load_values(source, contents, loading)
    if not source.is_folder and (source.local_path or name not in _NATIVE):
        source.check_unchanged()  # a library has read it; reads of the source are conditional
    return ScannedFile(
        url=source.url,
        identity=source.identity,
        parser=name,
        groups=contents.groups,
        arrays=contents.arrays,
        values=contents.values,
        problems=tuple(contents.problems),
        cost=source.tally.cost,
    )


def parser_of(parser: AnyParser) -> Parser:
    """Return the parser of a format, or one of VirtualiZarr or of others.

    Raises:
        InvalidInputError: There is none of this name.
    """
    if not isinstance(parser, str):
        return _adapted(parser)
    if parser in _NATIVE:
        native: Parser = load_parser(_NATIVE[FileFormat(parser)])
        return native
    if parser in VIRTUALIZARR_PARSERS:
        return _adapted(load_parser(VIRTUALIZARR_PARSERS[parser])())
    if ":" in parser:
        found = load_parser(parser)
        return _adapted(found() if isinstance(found, type) else found)
    raise InvalidInputError(f"the parser {name_fault(parser)}")


def name_fault(name: str) -> str | None:
    """Return why no parser can have a name, or None; parsers of others are not loaded for that."""
    names = sorted([AUTO, *_NATIVE, *VIRTUALIZARR_PARSERS])
    if name in names or ":" in name:
        return None
    return f"{name!r} is none of {', '.join(names)} and package.module:attribute"


def _opened(url: str, parser: AnyParser, find_object: FindObject | None) -> tuple[SourceFile, str]:
    """Return the file, and the name of its parser."""
    folder = format_of_folder(url) if parser == AUTO else None
    if folder is not None or _is_for_folders(parser):
        return SourceFile.open_folder(url, find_object), folder or _name_of(parser)
    source = SourceFile.open(url, find_object)
    if parser != AUTO:
        return source, _name_of(parser)
    found = format_of_file(url, source.head(HEAD_BYTES))
    if found is None:
        raise SourceError(
            f"the format of {source.url} is not known; name its parser",
            kind=ErrorKind.INVALID_FILE_FORMAT,
        )
    return source, found


def _is_for_folders(parser: AnyParser) -> bool:
    if isinstance(parser, str):
        return parser in FOLDER_FORMATS
    return bool(getattr(parser, "is_for_folders", False))


def _name_of(parser: AnyParser) -> str:
    if isinstance(parser, str):
        return parser
    name = getattr(parser, "name", None)
    return name if isinstance(name, str) else getattr(parser, "__qualname__", type(parser).__name__)


def _check_ends(source: SourceFile, contents: FileContents) -> None:
    """Refuse a file that was cut short: some of its chunks would be behind its end."""
    for path, array in contents.arrays.items():
        table = array.references
        ends = table.byte_offset + table.length
        if source.is_folder or table.locations.to_pylist() != [source.url] or not len(ends):
            continue
        if int(ends.max()) > source.size:
            raise SourceError(
                f"{source.url} ends before its chunks do: it has {source.size} bytes, and chunks "
                f"of {path} end at {int(ends.max())}; get a whole copy",
                kind=ErrorKind.INVALID_OBJECT_SIZE,
            )


def _load_values(source: SourceFile, contents: FileContents, loading: Loading) -> None:
    """Read what is asked for and the parser has not read."""
    for path in without(wanted_paths(contents.arrays, loading), contents.values):
        try:
            with translated(_undecodable):
                contents.values[path] = read_values(source, contents.arrays[path])
        except _UndecodableError as error:
            contents.problems.append(ScanProblem(error.message, path, is_fatal=False))


class _UndecodableError(SourceError):
    """Values that a codec does not make sense of; the file is of use without them."""


def _undecodable(error: BaseException) -> _UndecodableError:
    return _UndecodableError(f"its values cannot be read: {told(error)}")


def _adapted(parse: Callable[[str, Any], Any]) -> Parser:
    parser: Parser = load_parser(_ADAPTER)(parse)
    return parser


def load_parser(name: str) -> Any:
    """Import what is named; libraries of formats that do not occur stay out of memory.

    Raises:
        InvalidInputError: It is not there.
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"the parser {name} cannot be loaded ({error}); install icestream[parsers] or the "
            "package that has it"
        ) from error


def _unreadable(source: SourceFile, name: str, error: BaseException) -> IcestreamError:
    if isinstance(error, ImportError):
        return InvalidInputError(
            f"the parser {name} needs a package that is not installed ({error}); install "
            "icestream[parsers]"
        )
    return SourceError(
        f"{source.url} cannot be scanned as {name}: {told(error)}",
        kind=ErrorKind.INVALID_FILE_FORMAT,
    )
