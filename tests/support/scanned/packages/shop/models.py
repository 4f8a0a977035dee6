# ruff: noqa: UP042 - people write it so
from dataclasses import dataclass
from enum import Enum


class Status(str, Enum):
    OPEN = "open"
    CLOSED = "closed"


@dataclass
class Item:
    """Something in an order."""

    name: str
    price: float = 0.0
