"""Exchange rates from an HTTP API, such as https://frankfurter.dev.

toolcrib call convert amount=20 source=EUR target=USD -t examples/exchange_rates.py
RATES_URL=http://127.0.0.1:9000 toolcrib serve examples/exchange_rates.py
"""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import Field

from toolcrib import APIApplication, ToolError, tool

Currency = Annotated[str, Field(pattern="^[A-Z]{3}$")]


class ExchangeRates(APIApplication):
    """An error of the API reaches the model with its status and message."""

    base_url = os.environ.get("RATES_URL", "https://api.frankfurter.dev/v1")
    timeout_s = 10

    async def _latest(self, base: str) -> dict[str, float]:
        answer: dict[str, Any] = await self.aget("/latest", params={"base": base})
        return {**answer["rates"], base: 1.0}

    @tool(read_only=True, open_world=True)
    async def convert(self, amount: float, source: Currency, target: Currency) -> float:
        """Convert an amount of money at the latest rate.

        Args:
            amount: The amount
            source: Its currency, three letters
            target: The currency to convert to

        Returns:
            The amount in the other currency, rounded to cents

        Example:
            convert(amount=20, source="EUR", target="USD")
        """
        rates = await self._latest(source)
        if target not in rates:
            raise ToolError(f"There is no rate for {target}. Known: {', '.join(sorted(rates))}")
        return round(amount * rates[target], 2)

    @tool(read_only=True, open_world=True)
    async def list_currencies(self) -> list[str]:
        """List the currencies that can be converted.

        Returns:
            Codes of three letters
        """
        return sorted(await self._latest("EUR"))


rates = ExchangeRates()
