"""Tools for Gemini: `parameters`, in Google's own subset of OpenAPI, and `parametersJsonSchema`.

Knows the spelling of Google's `Schema`. Refuses to know Google's package.
"""

from __future__ import annotations

from typing import Any

from toolcrib.catalog.export.schema import Node


def dress(name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG001
    """A function declaration. One without parameters has none: an empty object was refused for long."""
    tool = {"name": name, "description": description} if description else {"name": name}
    found: dict[str, Any] = {**tool}
    if schema.keys() - {"type", "title"} != {"properties"} or schema["properties"]:
        found["parameters"] = to_openapi(schema)
        if not schema["properties"]:
            del found["parameters"]["properties"]
    return found


def dress_json(name: str, description: str, schema: Node, strict: bool | None) -> dict[str, Any]:  # noqa: ARG001
    tool = {"name": name, "description": description} if description else {"name": name}
    return {**tool, "parametersJsonSchema": schema}


def to_openapi(node: Node) -> Node:
    """A schema of the subset in Google's spelling: types in capitals, `nullable` instead of a null type."""
    branches = node.get("anyOf")
    if branches is None:
        return _spell(node)
    said = {key: value for key, value in node.items() if key != "anyOf"}
    forms = [to_openapi(branch) for branch in branches if branch.get("type") != "null"]
    if not forms:
        return {**said, "type": "NULL"}
    if len(forms) < len(branches):
        forms = [_make_nullable(form) for form in forms]
    # Google refuses anything beside `anyOf`, so that what is said of all is said with the first.
    first, *rest = (inner for form in forms for inner in form.get("anyOf", [form]))
    first = _join(said, first)
    return {"anyOf": [first, *rest]} if rest else first


def _make_nullable(form: Node) -> Node:
    if "anyOf" in form:
        return {"anyOf": [_make_nullable(inner) for inner in form["anyOf"]]}
    return {**form, "nullable": True}


def _join(said: Node, form: Node) -> Node:
    texts = [text for text in (said.get("description"), form.get("description")) if text]
    joined = {**form, **said}
    return {**joined, "description": "\n".join(texts)} if texts else joined


def _spell(node: Node) -> Node:
    found: Node = {}
    for key, value in node.items():
        if key == "type":
            found[key] = value.upper()
        elif key == "properties":
            found[key] = {name: to_openapi(inner) for name, inner in value.items()}
        elif key == "items":
            found[key] = to_openapi(value)
        else:
            found[key] = value
    if "enum" in found:
        found["format"] = "enum"
    return found
