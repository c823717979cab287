"""Files of MNIST's format, and what can be wrong with them."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from concrete_dropout.data.idx_file import read_idx
from concrete_dropout.errors import UserError

WHOLE = struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 4) + bytes(range(24))
PACKED = gzip.compress(WHOLE, mtime=0)


@pytest.mark.parametrize("compressed", [False, True])
def test_numbers_come_in_order(tmp_path, compressed):
    path = tmp_path / "images"  # what a file holds matters, not how it is called
    path.write_bytes(PACKED if compressed else WHOLE)
    array = read_idx(path, num_axes=3)
    assert array.dtype == np.uint8
    assert np.array_equal(array, np.arange(24).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"does not start with the magic number .* \(2051, here 0\)"),
        (struct.pack(">4BI", 0, 0, 8, 1, 2) + b"ab", r"3 axes \(2051, here 2049\)\. Is it another file\?"),
        (b"<html>not found</html>", r"does not start with the magic number"),
        (WHOLE[:9], r"ends within its header"),
        (WHOLE[:-1], r"should have 2 x 3 x 4 = 24 bytes after its header, and has 23"),
        (WHOLE + b"x", r"24 bytes after its header, and has 25"),
        (struct.pack(">4B3I", 0, 0, 8, 3, 0, 3, 4), r"0 x 3 x 4 = 0 bytes"),
        (PACKED[:-9], r"damaged or cut short"),
        (PACKED[:12] + b"\xff\xff" + PACKED[14:], r"damaged or cut short"),
        (PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:], r"damaged or cut short .*CRC"),
    ],
    ids=["empty", "labels", "html", "header", "short", "long", "none", "gzip_short", "gzip_damaged", "gzip_checksum"],
)
def test_faulty_files_are_named(tmp_path, content, message):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"^{path} .*{message}"):
        read_idx(path, num_axes=3)


def test_files_that_cannot_be_opened_are_named(tmp_path):
    with pytest.raises(UserError, match=r"images cannot be read \(No such file"):
        read_idx(tmp_path / "images", num_axes=3)
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory"):
        read_idx(tmp_path, num_axes=3)
