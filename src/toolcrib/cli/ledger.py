"""Records of calls as people and programs read them: lines, JSON, CSV.

Whatever a caller could have chosen is made harmless first: for a terminal, and for a spreadsheet, which takes
some texts for formulas. Knows records as data; refuses to know where they are kept.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.cli.escaping import one_line, safe

Record = Mapping[str, Any]

COLUMNS = (
    "seq",
    "at",
    "kind",
    "id",
    "request",
    "principal",
    "tool",
    "version",
    "definition",
    "decision",
    "rule",
    "outcome",
    "code",
    "duration_ms",
    "arguments_bytes",
    "arguments_digest",
    "result_bytes",
    "values",
    "more",
    "hash",
)
"""Of CSV. `more` has what a record says besides, as JSON."""
_CALLS = ("call", "intent")
_UNTOLD = {*COLUMNS} - {"values"} | {"roles"}
_FORMULAS = ("=", "+", "-", "@", "\t")


def show_line(record: Record) -> str:
    """One record on one line: number, time, how it ended, who, what, how long, why."""
    kind = record.get("kind")
    start = f"{one_line(record.get('seq', '?')):>7}  {show_time(record.get('at'))}"
    if kind not in _CALLS:
        return f"{start}  [{one_line(kind)}]  {_show_rest(record)}".rstrip()
    outcome = "begins" if kind == "intent" else one_line(record.get("outcome", "?"))
    tool = one_line(record.get("tool", "?"))
    if record.get("version"):
        tool = f"{tool}@{one_line(record['version'])}"
    words = [f"{outcome:<14}", f"{one_line(record.get('principal', '?')):<16}", f"{tool:<20}"]
    if isinstance(spent_ms := record.get("duration_ms"), int | float):
        words.append(f"{spent_ms:.1f} ms")
    said = [one_line(record["code"])] if record.get("code") else []
    if record.get("rule") and record.get("decision") not in (None, "allowed"):
        said.append(f"by {one_line(record['rule'])}")
    if record.get("values"):
        said.append(one_line(json.dumps(record["values"], ensure_ascii=False)))
    return f"{start}  {' '.join([*words, *said])}".rstrip()


def to_json_line(record: Record) -> str:
    """JSON on one line, in characters that no terminal can be steered with."""
    return json.dumps(record, separators=(",", ":")).replace("\x7f", "\\u007f")


def to_csv_line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([_to_cell(cell) for cell in cells])
    return text.getvalue()


def to_cells(record: Record) -> list[Any]:
    more = {key: value for key, value in record.items() if key not in COLUMNS}
    return [more or None if column == "more" else record.get(column) for column in COLUMNS]


def _to_cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = safe(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return f"'{text}" if text.startswith(_FORMULAS) else text


def show_time(at: Any) -> str:
    return one_line(at or "?").replace("T", " ").removesuffix("Z")


def _show_rest(record: Record) -> str:
    """What a record says that is not of a call."""
    facts = ((key, value) for key, value in record.items() if key not in _UNTOLD and value is not None)
    return ", ".join(f"{one_line(key)} {one_line(value)}" for key, value in facts)
