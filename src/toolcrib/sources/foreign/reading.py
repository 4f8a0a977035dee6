"""Read a server of `mcp` or `fastmcp` into tools and findings. A tool that cannot be served hides no
other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from toolcrib.errors import DefinitionError, Finding, InvalidToolError, SourceError
from toolcrib.sources.foreign import fast, sdk
from toolcrib.sources.foreign.adopting import adopt
from toolcrib.sources.foreign.context import Guest
from toolcrib.sources.foreign.guards import check_guards
from toolcrib.sources.foreign.lending import Lender
from toolcrib.sources.foreign.offer import Offer
from toolcrib.sources.foreign.recognition import library_of
from toolcrib.tool import Tool


@dataclass(slots=True)
class Reading:
    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def read_server(server: Any) -> Reading:
    """The tools of a server that was written for `mcp` or `fastmcp`. Raises SourceError where listing fails,
    and where the server has guards that would not run here."""
    library = library_of(server)
    if library is None:
        raise SourceError(f"{type(server).__name__} is no server of mcp or fastmcp")
    guest = Guest(server, library)
    try:
        check_guards(server)
        if library == "fastmcp":
            contents = fast.read_contents(server)
            offers: Iterable[Offer] = contents.offers
            remarks = list(fast.remark(contents, server))
        else:
            offers = list(sdk.read_offers(server))
            remarks = list(sdk.remark(server))
    except DefinitionError:
        raise
    except Exception as error:
        words = f"The tools of server '{guest.name}' cannot be listed: {type(error).__name__}: {error}"
        raise SourceError(words) from None
    reading = Reading(findings=remarks)
    lenders: dict[int, Lender] = {}
    for offer in offers:
        lender = lenders.setdefault(id(offer.server), Lender(guest, offer.server))
        try:
            tool, findings = adopt(offer, guest, lender)
        except DefinitionError as error:
            reading.findings.append(error.finding)
        except Exception as error:  # their objects may be of any version
            words = f"Tool '{offer.name}' cannot be taken: {type(error).__name__}: {error}"
            reading.findings.append(InvalidToolError(words, tool=offer.name).finding)
        else:
            reading.tools.append(tool)
            reading.findings += findings
    if not reading.tools and not reading.findings:
        reading.findings.append(Finding("no-tools", "warning", f"Server '{guest.name}' has no tools"))
    return reading
