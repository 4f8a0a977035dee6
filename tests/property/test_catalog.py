"""A catalog is the same whether its tools are read, registered or cached, and a cache is whole or nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib import ToolRegistry, build_catalog, get_catalog_cached
from toolcrib.catalog.build import unseal
from toolcrib.validation.validator import check_schema

HINTS = {
    "": None,
    ": str": '"text"',
    ": int": "5",
    ": float": "1.5",
    ": bool": "True",
    ": list": "None",
    ": dict[str, int]": "None",
    ": list[str] | None": "None",
    ": Literal['a', 'b']": "'a'",
    ": Any": "None",
}
words = st.text("abc äñ.:'(){}\\n-", max_size=40).map(lambda text: text.replace("\\", ""))


@st.composite
def sources(draw: st.DrawFn) -> str:
    lines = ["from typing import Any, Literal", "from toolcrib import tool", ""]
    for number in range(draw(st.integers(0, 4))):
        parameters = []
        hints = draw(st.lists(st.sampled_from(sorted(HINTS)), max_size=4))
        first_default = draw(st.integers(0, 4))
        for position, hint in enumerate(hints):
            default = f" = {HINTS[hint] or 'None'}" if position >= first_default else ""
            parameters.append(f"p{position}{hint}{default}")
        prefix = draw(st.sampled_from(["def", "async def"]))
        lines += ["@tool", f"{prefix} tool_{number}({', '.join(parameters)}):"]
        heading = draw(st.sampled_from(["Example:", "Ejemplo:", "Examples:", "Note:"]))
        body = [draw(words), "", f"{heading} {draw(words)}".rstrip(), f"    {draw(words)}".rstrip()]
        lines += ['    """' + "\n    ".join(body), '    """', "    return 1", ""]
    return "\n".join(lines)


@given(sources())
@settings(max_examples=25)
def test_anything_that_is_read_what_is_registered_and_what_is_cached_is_one_catalog(source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "adapter.py")
        path.write_text(source)
        read = build_catalog(path)
        cached = [get_catalog_cached(path, Path(folder, "cache.json")) for _ in range(2)]
        namespace: dict[str, Any] = {}
        exec(compile(source, str(path), "exec"), namespace)
        registry = ToolRegistry()
        registry.add_all([value for name, value in namespace.items() if name.startswith("tool_")])
        live = build_catalog(registry)
    assert cached == [read, read]
    for key in ("count", "promptList", "functionSchema"):
        assert live[key] == read[key]
    for entry in read["functionSchema"]:
        check_schema(entry["parameters"])
        for item in entry["parameters"]["properties"].values():
            assert item.keys() & {"type", "enum", "anyOf"}


@given(st.binary(max_size=300))
def test_any_other_bytes_are_nothing(data: bytes) -> None:
    assert unseal(data) is None
