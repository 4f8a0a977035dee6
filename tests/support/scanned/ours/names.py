# doubts: invalid-name
"""Names that are refused, and names that fit only when shortened."""

from toolcrib import tool


@tool(name="has blank")
def blank(a: int) -> int:
    """Has a blank."""
    return a


@tool
def ünicode(a: int) -> int:
    """Has a letter that is not ASCII."""
    return a


@tool(name="n" * 3 + "_and_more")
def repeated(a: int) -> int:
    """Has a name that is put together."""
    return a


@tool(name="a_name_that_is_much_longer_than_the_sixty_four_characters_that_most_clients_take_today")
def long(a: int) -> int:
    """Has a long name."""
    return a
