"""Images, files and links as results.

toolcrib call draw_chart 'values:=[1, 3, 2]' -t examples/pictures.py
toolcrib call export_table 'rows:=[["tea", 3]]' -t examples/pictures.py
"""

from __future__ import annotations

import csv
import io
import struct
import zlib
from typing import Annotated

from pydantic import Field

from toolcrib import File, Image, Link, tool

WIDTH, HEIGHT = 12, 100
Values = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1, max_length=50)]


def encode_png(rows: list[bytes]) -> bytes:
    """Encode rows of grey pixels; the usual package for this is Pillow."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@tool(read_only=True)
def draw_chart(values: Values) -> Image:
    """Draw a bar chart.

    Args:
        values: Heights of the bars

    Returns:
        The chart as PNG
    """
    top = max(values) or 1
    bars = [round(value / top * HEIGHT) for value in values]
    rows = [
        b"".join((b"\x30" if bar > level else b"\xff") * WIDTH for bar in bars)
        for level in range(HEIGHT - 1, -1, -1)
    ]
    return Image(encode_png(rows))


@tool(read_only=True)
def export_table(rows: list[list[str | int | float]]) -> list[str | File | Link]:
    """Write rows as a CSV file.

    Args:
        rows: The cells, row by row

    Returns:
        A note, the file, and a link to the format

    Example:
        export_table(rows=[["tea", 3], ["coffee", 5]])
    """
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    file = File(text.getvalue(), mime_type="text/csv", uri="table://export.csv")
    return [f"Rows: {len(rows)}", file, Link("https://www.rfc-editor.org/rfc/rfc4180", "CSV")]
