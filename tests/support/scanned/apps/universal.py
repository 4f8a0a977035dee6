# doubts: guessed-base
"""Applications as they are written for universal-mcp."""

from typing import Any

from universal_mcp.applications.application import APIApplication
from universal_mcp.integrations import Integration


class ZenquotesApp(APIApplication):
    def __init__(self, integration: Integration | None = None, **kwargs: Any) -> None:
        super().__init__(name="zenquotes", integration=integration, **kwargs)
        self.base_url = "https://example.com/api"

    def get_quote(self) -> str:
        """
        Fetches a random inspirational quote.

        Returns:
            A formatted string

        Raises:
            RequestException: If the request fails

        Tags:
            fetch, quotes, api, important
        """
        return ""

    def search(self, query: str, limit: int | None = 10, raw: bool = False) -> dict[str, Any]:
        """
        Looks for quotes.

        Args:
            query: What to look for
            limit: How many at most

        Tags:
            search
        """
        return {}

    def undocumented(self, a: int) -> int:
        return a

    def list_tools(self):
        """
        Lists the available tools.
        """
        return [self.get_quote, self.search, self.undocumented]
