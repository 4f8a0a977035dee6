"""Which paths are below a folder, and which only look so."""

from __future__ import annotations

import pytest

from toolcrib.policy.access.conditions import Folder


@pytest.mark.parametrize(
    ("folder", "path", "expected"),
    [
        ("/data", "/data", True),
        ("/data", "/data/", True),
        ("/data/", "/data/a/b", True),
        ("/data", "//data//a", True),
        ("/data", "/./data/./a", True),
        ("/data", "/data/..a/b", True),
        ("/data", "/database", False),
        ("/data", "/Data/a", False),
        ("/data", "/", False),
        ("/data/a", "/data", False),
        ("/", "/anything", True),
        ("data", "data/a", True),
        ("data", "./data/a", True),
        ("data", "other/data", False),
        (".", "anything/at/all", True),
        ("/data", "/data/../etc", None),
        ("/data", "/data/a/..", None),
        ("/data", "..", None),
        ("/data", "data/a", None),
        ("data", "/data/a", None),
        (".", "/etc", None),
        ("/data", "", None),
        ("/data", "/data/a\x00", None),
        ("/data", "/data\\..\\etc", None),
        ("/data", "/data/%2e%2e/etc", None),
        ("/data", "/data/%2E%2E/etc", None),
        ("/data", "/data%2Fa", None),
        ("/data", "/data%5ca", None),
        ("/data", "/data/%00", None),
        ("/data", "/data/%20", True),
        ("data", "~/data", None),
        ("data", "data/~", True),
        ("data", "C:/data", None),
        ("data", "data/C:", True),
    ],
)
def test_a_path_is_below_a_folder_or_not_or_nobody_can_tell(
    folder: str, path: str, expected: bool | None
) -> None:
    assert Folder(folder).holds(path) is expected


@pytest.mark.parametrize("text", ["", "..", "/a/../b", "~", "~/x", "a\\b", "C:/x", "/a/%2e", "/a\x00"])
def test_a_folder_has_to_say_which_it_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be a plain path"):
        Folder(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("/a//b/", "/a/b"), ("/", "/"), (".", "."), ("./a", "a"), ("a/./b", "a/b")]
)
def test_a_folder_has_one_spelling(text: str, expected: str) -> None:
    assert Folder(text).text == expected
