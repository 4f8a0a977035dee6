"""Questions to the user, progress, and a deadline.

    toolcrib call pay_invoice number=7 -t examples/approval.py       asks in the terminal

Ask before you act: a client of 2026-07-28 calls again with the answer, and the function runs from its start.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from toolcrib import Context, ToolError, tool
from toolcrib.errors import CannotAskError

INVOICES = {7: 120.0, 8: 15.5}


@dataclass
class Payment:
    account: Literal["business", "private"]
    reference: str = ""


@tool(destructive=True, timeout_s=30)
async def pay_invoice(number: int, ctx: Context) -> str:
    """Pay an invoice, after the user has chosen the account.

    Args:
        number: Number of the invoice
    """
    if number not in INVOICES:
        raise ToolError(f"There is no invoice {number}. Open: {', '.join(map(str, INVOICES))}")
    question = f"Pay {INVOICES[number]:.2f} EUR for invoice {number}?"
    try:
        payment = await ctx.ask("payment", question, Payment)
    except CannotAskError:
        raise ToolError("Payments need the consent of a person, and this client cannot ask.") from None
    if payment is None:
        return "Nothing was paid"
    for step, text in enumerate(("reserved", "signed", "sent"), start=1):
        await ctx.progress(step, 3, text)
        await asyncio.sleep(0)  # the work of each step
    reference = f", reference {payment.reference!r}" if payment.reference else ""
    return f"Paid {INVOICES[number]:.2f} EUR from the {payment.account} account{reference}"
