"""Functions documented the way Google's style guide asks for."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, Optional

from pydantic import Field

from bench.samples.models import Address, Forecast, Invoice, LineItem, Order, Person, Priority, Ticket


def get_forecast(city: str, days: int = 3, units: Literal["metric", "imperial"] = "metric") -> list[Forecast]:
    """Get the weather forecast of a city.

    The figures come from the national service and are refreshed at six in the morning
    and at six in the evening, local time.

    Args:
        city: Name of the city, in any language.
            Add the country after a comma where the name is ambiguous.
        days: How many days ahead, ten at most.
        units: Unit system of the temperatures.

    Returns:
        One entry for each day, today first.

    Raises:
        LookupError: If no city of that name is known.
        TimeoutError: If the weather service does not answer within five seconds.

    Example:
        >>> get_forecast("Oslo", days=1)
        [{'day': '2026-03-01', 'low': -4.0, 'high': 1.5}]
    """
    raise NotImplementedError


def create_ticket(subject: str, body: str, priority: Priority = Priority.NORMAL) -> Ticket:
    """Open a support ticket.

    Args:
        subject: One line that says what is wrong.
        body: The whole story, Markdown allowed.
        priority: How soon somebody should look at it.

    Returns:
        The new ticket with its number.

    Note:
        The customer receives a confirmation by mail at once, so never use this for trials.
    """
    raise NotImplementedError


def assign_ticket(ticket_id: int, assignee: str, notify: bool = True) -> Ticket:
    """Hand a ticket to a colleague.

    Important: the colleague must belong to the support team. Look them up with
    `find_person` before calling this.

    Args:
        ticket_id: Number of the ticket.
        assignee: Login of the colleague.
        notify: Whether to write them a message about it.

    Raises:
        PermissionError: If the ticket is closed already.
    """
    raise NotImplementedError


def close_tickets(ticket_ids: list[int], reason: str | None = None) -> int:
    """Close several tickets in one go.

    Warning:
        Closed tickets cannot be opened again. Ask the user first.

    Args:
        ticket_ids: Numbers of the tickets, a hundred at most.
        reason: Shown to every customer; left out, they only see that it is closed.

    Returns:
        How many were still open and are closed now.
    """
    raise NotImplementedError


def place_order(customer: Person, items: list[LineItem], note: str | None = None) -> Order:
    """Place an order on behalf of a customer.

    Stock is reserved for fifteen minutes. Without a payment by then the order lapses
    and the pieces return to the shelf.

    Args:
        customer: Who orders; the address is needed for anything that is shipped.
        items: What is ordered, at least one line.
        note: A remark that is printed on the delivery slip.

    Returns:
        The order as it was stored.

    Raises:
        ValueError: If an article number is unknown.
        RuntimeError: If the warehouse is offline.
    """
    raise NotImplementedError


def find_orders(
    email: str, since: date | None = None, status: Literal["open", "shipped", "returned"] = "open"
) -> list[Order]:
    """Find the orders of a customer.

    Args:
        email: The mail address the customer signed up with.
        since: Leave out orders placed before this day.
        status: Which orders are wanted.

    Returns:
        The matching orders, newest first.
    """
    raise NotImplementedError


def cancel_order(order_id: str, refund: bool = True) -> bool:
    """Cancel an order that has not left the warehouse.

    Args:
        order_id: Identifier as printed on the confirmation.
        refund: Whether to pay the money back right away.

    Returns:
        False where the parcel was already on its way.

    Todo:
        Partial cancellations are planned for summer.
    """
    raise NotImplementedError


def ship_order(order_id: str, address: Address, carrier: Literal["post", "courier"] = "post") -> str:
    """Send the parcel of an order.

    Args:
        order_id (str): Identifier of the order.
        address (Address): Where it goes, which may differ from the customer's own.
        carrier (str, optional): Who brings it.

    Returns:
        str: The tracking code.

    The label is printed in the background: this never waits for the carrier.
    """
    raise NotImplementedError


def issue_invoice(order_id: str, due_in_days: Annotated[int, Field(ge=1, le=90)] = 14) -> Invoice:
    """Write the invoice for an order.

    Args:
        order_id: Identifier of the order.
        due_in_days: Days until the money is due, between one and ninety.

    Returns:
        The invoice, with a number that is never used twice.

    References:
        Section 14 of the tax act on what a bill must contain.
    """
    raise NotImplementedError


def list_invoices(customer: str, unpaid_only: bool = False, limit: int = 50) -> list[Invoice]:
    """List a customer's invoices.

    Args:
        customer: Mail address or number of the customer.
        unpaid_only: Skip what has been settled.
        limit: Longest list you can make use of.
    """
    raise NotImplementedError


def send_mail(to: list[str], subject: str, text: str, cc: Optional[list[str]] = None) -> str:  # noqa: UP045
    """Send a plain text mail from the team's mailbox.

    Args:
        to: Recipients.
        subject: Subject line, kept below seventy characters by most people.
        text: The message itself. Signature and legal footer are appended.
        cc: Who else gets a copy.

    Returns:
        The message identifier.

    Raises:
        ConnectionError: If the mail server refuses the message.

    Tags:
        mail, outgoing
    """
    raise NotImplementedError


def search_mail(query: str, folder: str = "inbox", newest_first: bool = True) -> list[dict[str, str]]:
    """Search the team's mailbox.

    Usage notes:
        - Words are joined by AND.
        - Quote a phrase to find it verbatim.
        - `from:anna` looks at senders only.

    Args:
        query: What to look for.
        folder: Which folder; `all` means everywhere.
        newest_first: Order of the hits.

    Returns:
        Hits with sender, subject and identifier.
    """
    raise NotImplementedError


def find_person(name: str, department: str | None = None) -> Person | None:
    """Look somebody up in the staff directory.

    Args:
        name: Full name or part of it.
        department: Narrow the search to one department.

    Returns:
        The best match, or null if nobody comes close.
    """
    raise NotImplementedError


def update_person(person: Person, fields: list[Literal["name", "email", "address"]]) -> Person:
    """Change somebody's entry in the staff directory.

    Only the named fields are taken from `person`, the rest stays as it is.

    Args:
        person: The entry with its new values.
        fields: Which values to take over.

    Returns:
        The entry after the change.

    Raises:
        KeyError: If there is no such person.
    """
    raise NotImplementedError


def book_room(room: str, start: str, minutes: int = 30, attendees: list[str] | None = None) -> str:
    """Reserve a meeting room.

    Args:
        room: Name on the door, for example `Ada`.
        start: Beginning as ISO 8601 with an offset, for example `2026-03-01T09:00+01:00`.
        minutes: Length of the meeting.
        attendees: Logins of everybody invited; the room must be large enough.

    Returns:
        A reference that `cancel_room` accepts.

    Raises:
        BlockingIOError: If the room is taken at that time.
    """
    raise NotImplementedError


def convert_currency(amount: float, source: str, target: str, on: date | None = None) -> float:
    """Convert an amount of money.

    Args:
        amount: How much, in the source currency.
        source: Three letters, as in ISO 4217.
        target: Three letters, as in ISO 4217.
        on: Day of the exchange rate; today's rate if missing.

    Returns:
        The amount in the target currency, rounded half to even.

    Examples:
        >>> convert_currency(10.0, "EUR", "EUR")
        10.0
    """
    raise NotImplementedError


def translate(text: str, target: str, formality: Literal["default", "formal", "casual"] = "default") -> str:
    """Translate a text.

    The source language is detected. Markup survives; names and code do not change.

    Args:
        text: What to translate, up to five thousand characters.
        target: Language tag such as `pt-BR`.
        formality: How to address the reader, where the language makes a difference.

    Returns:
        The translation alone, without quotes around it.

    Caution:
        Confidential texts leave the house: the work is done by a foreign provider.
    """
    raise NotImplementedError


def run_report(name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run one of the prepared reports.

    Args:
        name: Name of the report, see `list_reports`.
        parameters: Values for the placeholders of the report.

    Returns:
        Columns and rows, and how long the database took.
    """
    raise NotImplementedError
