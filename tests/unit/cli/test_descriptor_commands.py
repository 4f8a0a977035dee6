"""Commands take descriptors wherever they take code."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import ADD, CommandLine
from toolcrib import collect

YAML = """
tools:
  - name: forecast
    description: Tell the weather of a place
    schema: {type: object, properties: {city: {type: string, description: Where}}, required: [city]}
  - name: broken
    description: Have no schema to speak of
    schema: 5
"""


def test_list_and_check_read_descriptors(cli: CommandLine) -> None:
    cli.write("tools.yaml", YAML)
    done = cli.run("list", "tools.yaml")
    assert done.exit_code == 1
    assert "forecast" in done.stdout
    assert "tools.yaml:6: 'schema' of tool 'broken' must be an object, got int" in done.stderr
    report = cli.json("check", "tools.yaml", "--json")
    assert [tool["name"] for tool in report["tools"]] == ["forecast"]
    assert [finding["line"] for finding in report["findings"] if finding["level"] == "error"] == [6]


def test_a_described_tool_cannot_be_called(cli: CommandLine) -> None:
    cli.write("tools.yaml", YAML)
    done = cli.run("call", "-t", "tools.yaml", "forecast", "city=Rome")
    assert done.exit_code == 1
    assert "only described here" in done.stderr


def test_a_descriptor_shows_the_same_tool_as_the_code(cli: CommandLine) -> None:
    path = cli.write("tools.py", ADD)
    tools = [tool.to_wire() for tool in collect(str(path)).tools]
    cli.write("tools.json", json.dumps({"tools": tools}))
    for target in ("tools.py", "tools.json"):
        shown = cli.json("show", "-t", target, "add", "--json")
        assert shown["description"] == "Add two whole numbers"
    one, two = (cli.json("show", "-t", target, "add", "--json") for target in ("tools.py", "tools.json"))
    assert one["fingerprint"] == two["fingerprint"]


def test_an_openapi_document_and_a_missing_file_have_different_errors(cli: CommandLine) -> None:
    cli.write("api.json", '{"openapi": "3.1.0"}')
    done = cli.run("list", "api.json")
    assert (done.exit_code, "which is not supported yet" in done.stderr) == (1, True)
    done = cli.run("list", "nowhere.json")
    assert (done.exit_code, "No such file or folder: nowhere.json" in done.stderr) == (2, True)
