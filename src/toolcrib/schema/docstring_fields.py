"""The fields of a reST docstring, `:param x: words`, and of an Epydoc one, `@param x: words`.

Knows which fields speak of parameters, attributes, results, errors and tags. Refuses to know the roles and
directives of reST: they are words like others. A field that does not say what it is about stays prose.
"""

from __future__ import annotations

import re

from toolcrib.schema.docstring_layout import find_block_end, flow, indent_of
from toolcrib.schema.docstring_sections import HEADERS, Documented, Draft, read_tags, split_names
from toolcrib.schema.docstring_types import clean_type

_KINDS = {
    word: kind
    for kind, words in {
        "params": "param parameter arg argument key keyword kwarg",
        "params type": "type kwtype",
        "attributes": "ivar cvar var attribute",
        "attributes type": "vartype",
        "returns": "return returns yield yields",
        "returns type": "rtype ytype",
        "raises": "raise raises except exception",
        "tags": "tags",
    }.items()
    for word in words.split()
}
_FIELD = re.compile(r"\s*+[:@](\w++)(?:\s++([^:]*+))?:(?![`:])\s*+(.*)")


def is_field(line: str) -> bool:
    match = _FIELD.match(line)
    return match is not None and match[1].lower() in _KINDS


def read_rest(lines: list[str]) -> Draft:
    draft = Draft()
    types: dict[tuple[str, str], list[str]] = {}
    number, level = 0, None
    while number < len(lines):
        line = lines[number]
        match = _FIELD.match(line) if line and line[0] in " :@" else None
        kind = _KINDS.get(match[1].lower()) if match else None
        # Fields align; one that stands deeper than the first is somebody's example.
        if match is None or kind is None or (level is not None and indent_of(line) > level):
            draft.prose.append(line)
            number += 1
            continue
        level = indent_of(line)
        end = find_block_end(lines, number + 1, level)
        text = flow(match[3], lines[number + 1 : end])
        if _take_field(draft, types, kind, (match[2] or "").strip(), text):
            _drop_dangling_header(draft.prose, level)
            draft.prose.append("")
        else:
            draft.prose += lines[number:end]
        number = end
    _settle_types(draft, types)
    return draft


def _take_field(
    draft: Draft, types: dict[tuple[str, str], list[str]], kind: str, about: str, text: str
) -> bool:
    """Take one field; False if it lacks what would tell where its words belong."""
    kind, _, is_type = kind.partition(" ")
    if kind == "tags":
        draft.tags += read_tags([about, text])
    elif kind == "returns":
        draft.add_returns("" if is_type else text, text if is_type else about or None)
    elif kind == "raises" and about:
        draft.raises += [Documented(name, text) for name in split_names(about)]
    elif is_type and about and clean_type(text):
        types.setdefault((kind, about.strip("*`\\")), []).append(clean_type(text) or "")
    elif (named := _split_named_field(about)) and not is_type:
        draft.entries_of(kind).extend(Documented(name, text, named[1]) for name in named[0])
    else:
        return False
    return True


def _split_named_field(about: str) -> tuple[list[str], str | None] | None:
    """Split what stands in `:param ...:`, which is a name, several, or a type and a name."""
    names = split_names(about)
    if all(name.isidentifier() for name in names):
        return names, None
    *type_words, name = about.split() or [""]
    name = name.strip("*`\\")
    if name.isidentifier():
        return [name], clean_type(" ".join(type_words))
    name, _, type_text = about.partition(" ")
    return ([name], clean_type(type_text.strip("()"))) if name.isidentifier() else None


def _drop_dangling_header(prose: list[str], level: int) -> None:
    """Drop an `Args:` whose whole block was fields: its words have just moved out."""
    while level and prose and not prose[-1]:
        prose.pop()
    if level and prose and prose[-1] in HEADERS:
        prose[-1] = ""


def _settle_types(draft: Draft, types: dict[tuple[str, str], list[str]]) -> None:
    """Give `:type x:` to the parameter it speaks of, wherever it stood; alone, it documents one too."""
    for entries, kind in ((draft.params, "params"), (draft.attributes, "attributes")):
        for index, entry in enumerate(entries):
            found = types.pop((kind, entry.name), [])
            if found:
                own = [entry.type] if entry.type else []
                entries[index] = entry._replace(type=" | ".join(dict.fromkeys(own + found)))
    for (kind, name), found in types.items():
        draft.entries_of(kind).append(Documented(name, "", " | ".join(dict.fromkeys(found))))
