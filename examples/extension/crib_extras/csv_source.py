"""A source: each row of a CSV file (name, description, text) becomes a tool that returns the text."""

import csv

from toolcrib import Tool
from toolcrib.errors import Location, SourceError
from toolcrib.sources import Batch, Target


class CSVSource:
    def accepts(self, target):
        return isinstance(target, Target) and target.text.endswith(".csv")

    def read(self, target, options):
        with open(target.path, newline="") as file:
            rows = csv.DictReader(file)
            if rows.fieldnames != ["name", "description", "text"]:
                raise SourceError(f"{target.text}: the columns must be name, description, text")
            tools = [options.apply(make_tool(row), Location(target.text, rows.line_num)) for row in rows]
        return Batch(tools)

    def files(self, target):
        return [target.path]


def make_tool(row):
    def handler() -> str:
        return row["text"]

    return Tool.from_function(handler, name=row["name"], description=row["description"])
