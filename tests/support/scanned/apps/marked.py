"""Applications with marked methods."""

from toolcrib import Application, tool


class ShopApp(Application):
    """A shop."""

    namespace = "shop"

    @tool
    def find(self, order: int) -> dict[str, str]:
        """Find an order.

        Args:
            order: Its number
        """
        return {}

    @tool(name="cancel_it", destructive=True)
    async def cancel(self, order: int, *, why: str = "") -> None:
        """Cancel an order."""

    @staticmethod
    @tool
    def helper(a: int) -> int:
        """Need no object."""
        return a

    @classmethod
    @tool
    def of_class(cls, a: int) -> int:
        """Need the class."""
        return a

    def unmarked(self) -> None:
        """No tool."""

    @tool
    def _hidden(self) -> None:
        """No tool either."""


class SpecialShopApp(ShopApp):
    namespace = "special"

    def find(self, order: int, deep: bool = False) -> dict[str, str]:
        return {}

    @tool
    def more(self) -> int:
        """Do more."""
        return 1
