"""Tools that a model cannot tell apart, found without comparing each with every other."""

from __future__ import annotations

import random
from time import process_time

import pytest

from toolcrib.catalog.lint import inspect_tools
from toolcrib.catalog.lint.quality import (
    find_near_duplicates,
    find_same_descriptions,
    skeleton,
)
from toolcrib.catalog.lint.rule import LintedTool
from toolcrib.definition import ToolDefinition
from toolcrib.errors import Location
from toolcrib.sources.described import describe


def subject(name: str, description: str, *parameters: str, file: str | None = None) -> LintedTool:
    properties = {parameter: {"type": "string"} for parameter in parameters}
    schema = {"type": "object", "properties": properties}
    definition = ToolDefinition(name, description, schema, source=Location(file, 1 if file else None))
    return LintedTool(describe(definition))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("get_user", "Get a user by number"), ("getUser", "Something else entirely")),
        (("get-user", "Get a user by number"), ("get_user", "Whatever it is about")),
        (("get_user", "Get the user with a number"), ("fetch_user", "Fetch a user by their number")),
        (("retrieveInvoice", "Retrieve an invoice", "id"), ("get_invoice", "Gets one invoice.", "id")),
    ],
)
def test_tools_with_the_same_name_are_near_duplicates(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    [(later, remark)] = find_near_duplicates([subject(*one), subject(*other)])
    assert later.name == other[0]
    assert one[0] in remark.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("get_user", "Get one user by number"), ("get_group", "Get one group by number")),
        (("get_user", "Get the user with a number"), ("list_users", "List all users of the office")),
        (("get_user", "Get a user of the team"), ("get_users", "Get users of the team")),
        (("sign", "Sign a text"), ("_sign", "Sign a text")),
        (("create_label", "Create a label"), ("update_label", "Update a label")),
        (("create_label", "Create a label"), ("add_label", "Add a label")),
        (("scope_to_list", "Turn scopes into a list"), ("list_to_scope", "Turn a list into scopes")),
        (("crm_get_user", "Get one user by number"), ("erp_get_user", "Get one user by number")),
        (("running_max", "Return the largest so far"), ("running_min", "Return the smallest so far")),
        (("get_page", "Return the page from the cache"), ("fetch_page", "Download a page, however large")),
        (("get_user", "Get a user", "id"), ("fetch_user", "Fetch a user", "email")),
        (
            (
                "open_case",
                "Open the case of a customer with the number that stands on the letter of the office",
            ),
            (
                "close_case",
                "Close the case of a customer with the number that stands on the letter of the office",
            ),
        ),
        (
            ("paint_wall", "Paint something in the colour that was chosen by the owner of the house", "wall"),
            ("dye_cloth", "Paints something in the colour that was chosen by the owner of a house", "cloth"),
        ),
    ],
)
def test_tools_with_different_subjects_are_not_near_duplicates(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    assert list(find_near_duplicates([subject(*one), subject(*other)])) == []


def test_a_copied_description_is_reported_with_the_location_of_the_first() -> None:
    tools = [
        subject("first", "Do the thing.", file="/a.py"),
        subject("second", "do the Thing", file="/b.py"),
        subject("third", "Do the thing!", file="/a.py"),
    ]
    found = [(later.name, remark.message) for later, remark in find_same_descriptions(tools)]
    assert found == [
        ("second", "'second' has the same description as 'first' (/a.py:1)"),
        ("third", "'third' has the same description as 'first'"),
    ]


def test_versions_of_one_tool_are_not_compared() -> None:
    tools = [
        subject("find_order", "Find an order by words."),
        subject("find_order", "Find an order by words."),
    ]
    assert list(find_near_duplicates(tools)) == list(find_same_descriptions(tools)) == []


def _make(number: int, lot: random.Random) -> LintedTool:
    things = [
        "order",
        "invoice",
        "customer",
        "letter",
        "ticket",
        "branch",
        "channel",
        "report",
        "table",
        "page",
    ]
    deeds = ["find", "send", "open", "close", "copy", "count", "archive", "print"]
    deed, thing, other = lot.choice(deeds), lot.choice(things), lot.choice(things)
    words = f"{deed.title()} the {thing} number {number} of a {other}, if the {lot.choice(things)} is known"
    return subject(
        f"{deed}_{thing}_{number}", f"{words}. Use it when the {lot.choice(things)} changed.", other
    )


def test_ten_times_the_tools_take_about_ten_times_as_long() -> None:
    lot = random.Random(7)
    spent = []
    for count in (200, 2_000):
        tools = [_make(number, lot) for number in range(count)]
        began = process_time()
        list(find_near_duplicates(tools))
        spent.append(process_time() - began)
    assert spent[1] < 40 * spent[0] + 0.5


def test_a_thousand_copies_are_found_without_a_thousand_comparisons_each() -> None:
    same = [
        subject(f"tool_{number}", "Puts closed cases of a customer away for ever") for number in range(1_000)
    ]
    began = process_time()
    assert len(list(find_same_descriptions(same))) == 999
    list(find_near_duplicates(same))
    assert process_time() - began < 5


def test_lint_reads_thousands_of_tools_in_seconds() -> None:
    lot = random.Random(8)
    tools = [_make(number, lot).tool for number in range(1_000)]
    began = process_time()
    inspect_tools(tools)
    assert process_time() - began < 5, "ten thousand would take a minute"


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("delete", "deIete"),
        ("delete", "de1ete"),
        ("o", "0"),
        ("Order", "0rder"),
        ("learn", "leam"),
        ("A", "a"),
    ],
)
def test_names_that_look_the_same_have_one_skeleton(name: str, twin: str) -> None:
    assert skeleton(name) == skeleton(twin)


@pytest.mark.parametrize(
    ("name", "other"), [("get_user", "get_users"), ("add", "sub"), ("get-user", "get_user")]
)
def test_names_that_look_different_do_not(name: str, other: str) -> None:
    assert skeleton(name) != skeleton(other)
