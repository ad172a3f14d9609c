"""Packs a wheel anew with zopfli: the same files, the same bytes once unpacked, and 3 to 5 percent smaller.

    repack.py FROM TO

Run by tools/wheel.py with the Python of its environment, which has zopfli. The result is plain deflate, which every pip reads.
"""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import zopfli.zlib

ROUNDS = 5
"""More of them save less than a thousandth."""

LOCAL, CENTRAL, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
NEEDED, MADE_BY_UNIX = 20, 3 << 8 | 20
UTF8 = 0x800


def deflated(content: bytes) -> tuple[int, bytes]:
    """The method and the bytes of a file in the archive: as it is, where compressing does not help."""
    # A zlib stream is two bytes of header, the deflate stream, and a checksum.
    packed = zopfli.zlib.compress(content, numiterations=ROUNDS)[2:-4] if content else b""
    return (zipfile.ZIP_DEFLATED, packed) if 0 < len(packed) < len(content) else (zipfile.ZIP_STORED, content)


def repack(source: Path, target: Path) -> None:
    """Writes the archive anew, its files in the same order."""
    with zipfile.ZipFile(source) as archive:
        infos = archive.infolist()
        contents = [archive.read(info) for info in infos]
    with ThreadPoolExecutor() as pool:
        packed = list(pool.map(deflated, contents))
    written, directory = bytearray(), bytearray()
    for info, content, (method, data) in zip(infos, contents, packed):
        name = info.filename.encode()
        year, month, day, hour, minute, second = info.date_time
        date, time = (year - 1980) << 9 | month << 5 | day, hour << 11 | minute << 5 | second // 2
        common = struct.pack(
            "<5H3L2H", NEEDED, UTF8, method, time, date, zlib.crc32(content), len(data), len(content), len(name), 0
        )
        directory += CENTRAL + struct.pack("<H", MADE_BY_UNIX) + common
        directory += struct.pack("<3H2L", 0, 0, 0, info.external_attr, len(written)) + name
        written += LOCAL + common + name + data
    end = struct.pack("<4H2LH", 0, 0, len(infos), len(infos), len(directory), len(written), 0)
    target.write_bytes(written + directory + END + end)
    check(target, infos, contents)


def check(target: Path, infos: list[zipfile.ZipInfo], contents: list[bytes]) -> None:
    """What was written must read as what it was made of: names, modes and content, RECORD among them."""
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        now = [(info.filename, info.external_attr, info.date_time, archive.read(info)) for info in archive.infolist()]
    assert now == [
        (info.filename, info.external_attr, info.date_time, content) for info, content in zip(infos, contents)
    ], f"{target} is not what it was made of"


if __name__ == "__main__":
    repack(Path(sys.argv[1]), Path(sys.argv[2]))
