"""Two tools in place of a list that is too long for a model: one finds tools, the other calls them.

    search_tools(query, limit)    names, descriptions and input schemas of what fits
    call_tool(name, arguments)    is a call of that tool, in every respect

They stand in for the list where it would cost more tokens than the budget ("auto"), or "always". The tools
behind them stay what they are: they are called by name as before, and those with the tag `pinned` stay in the
list. What a list costs is in `budget`, the two tools in `pair`, how they find in `finding`.
"""

from toolcrib.storefront.budget import DEFAULT_BUDGET_TOKENS
from toolcrib.storefront.front import PINNED, Publish, Storefront, Verdict, check_wishes, could_be_front
from toolcrib.storefront.pair import CALL, SEARCH

__all__ = [
    "CALL",
    "DEFAULT_BUDGET_TOKENS",
    "PINNED",
    "SEARCH",
    "Publish",
    "Storefront",
    "Verdict",
    "check_wishes",
    "could_be_front",
]
