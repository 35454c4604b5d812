"""Which of two rows differ: SQL's IS DISTINCT FROM, for whole columns of any type."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icestream.ledger.data.logical_hash import encoded_values
from icestream.ledger.data.merging.keys import Flags


def distinct_rows(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Flags:
    """Tell for each row whether two columns of one type have different values in it.

    Two nulls are the same, and so are two NaNs of the same bits.
    """
    one, other = old.combine_chunks(), new.combine_chunks()
    if pa.types.is_struct(one.type):
        return _distinct_structs(one, other)
    unequal: Flags = pc.not_equal(encoded_values(one), encoded_values(other)).to_numpy(
        zero_copy_only=False
    )
    distinct: Flags = np.logical_or(unequal, np.not_equal(_is_null(one), _is_null(other)))
    return distinct


def _distinct_structs(old: pa.StructArray, new: pa.StructArray) -> Flags:
    distinct = np.not_equal(_is_null(old), _is_null(new))
    for one, other in zip(old.flatten(), new.flatten(), strict=True):
        unequal = distinct_rows(pa.chunked_array([one]), pa.chunked_array([other]))
        distinct = np.logical_or(distinct, unequal)
    return distinct


def _is_null(values: pa.Array) -> Flags:
    flags: Flags = pc.is_null(values).to_numpy(zero_copy_only=False)
    return flags
