"""Docstrings in three styles, and their sections."""

from toolcrib import tool


@tool
def google(city: str, days: int = 3) -> dict[str, float]:
    """Forecast the weather.

    Longer words about it, on
    two lines.

    Args:
        city: Where, a city
            and more about it
        days (int): How many days

    Returns:
        Temperatures by day

    Raises:
        ValueError: If the city is unknown

    Tags:
        weather, forecast

    Example:
        google("Paris")
    """
    return {}


@tool
def numpy(city: str, days: int = 3) -> str:
    """Forecast the weather.

    Parameters
    ----------
    city : str
        Where
    days : int, optional
        How many days

    Returns
    -------
    str
        The words
    """
    return ""


@tool
def sphinx(city, days=3):
    """Forecast the weather.

    :param city: Where
    :type city: str
    :param int days: How many
    :returns: The words
    :raises KeyError: never
    """
    return ""


@tool
def silent(a: int) -> int:
    return a
