"""A source: each row of a CSV file (name, description, text) becomes a tool that returns the text."""

import csv

from toolcrib import Tool
from toolcrib.sources import Batch


class CSVSource:
    def accepts(self, target):
        return str(getattr(target, "path", "")).endswith(".csv")

    def read(self, target, options):
        with open(target.path, newline="") as file:
            tools = [make_tool(row) for row in csv.DictReader(file)]
        return Batch([options.apply(tool) for tool in tools])

    def files(self, target):
        return [target.path]


def make_tool(row):
    def handler() -> str:
        return row["text"]

    return Tool.from_function(handler, name=row["name"], description=row["description"])
