"""The types that the sample functions take and return."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import NotRequired

from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic refuses typing's own before Python 3.12


class Priority(enum.Enum):
    """How soon somebody should look at it."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class Severity(enum.IntEnum):
    """How bad an incident is, one being the worst."""

    CRITICAL = 1
    MAJOR = 2
    MINOR = 3


@dataclass
class Address:
    """A postal address.

    Attributes:
        street: Street and house number.
        city: Town or city.
        postal_code: Code as the country writes it.
        country: Two letters, as in ISO 3166.
    """

    street: str
    city: str
    postal_code: str
    country: str = "DE"


@dataclass
class Person:
    """Somebody we know.

    Attributes:
        name: Full name.
        email: Where mail reaches them.
        address: Where parcels reach them.
    """

    name: str
    email: str
    address: Address | None = None
    nicknames: list[str] = field(default_factory=list)


class LineItem(BaseModel):
    """One line of an order."""

    sku: str = Field(description="Article number", pattern=r"^[A-Z]{2}-\d{4}$")
    quantity: int = Field(default=1, ge=1, le=999, description="How many pieces")
    unit_price_cents: int = Field(ge=0, description="Price of one piece in cents")


class Order(BaseModel):
    """What a customer ordered."""

    id: str
    customer: Person
    items: list[LineItem]
    placed_at: datetime
    note: str | None = None


class Invoice(BaseModel):
    """A bill for an order."""

    number: str
    order_id: str
    due: date
    total_cents: int
    paid: bool = False


class Ticket(TypedDict):
    """A question or a complaint from a customer."""

    id: int
    subject: str
    priority: Priority
    assignee: NotRequired[str]


class Forecast(TypedDict):
    """The weather of one day."""

    day: str
    low: float
    high: float
    rain_mm: NotRequired[float]


@dataclass
class Point:
    """A place on the globe.

    Attributes:
        latitude: Degrees north.
        longitude: Degrees east.
    """

    latitude: float
    longitude: float


@dataclass
class Route:
    """A way from one place to another."""

    stops: list[Point]
    distance_km: float
    minutes: int


@dataclass
class Statistics:
    """A column of numbers in brief."""

    count: int
    mean: float
    deviation: float
    quantiles: dict[str, float] = field(default_factory=dict)


class Page(TypedDict):
    """A slice of a longer list."""

    rows: list[dict[str, str]]
    next_cursor: str | None
