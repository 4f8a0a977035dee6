"""Functions documented in the style of NumPy."""

from __future__ import annotations

from typing import Any, Literal

from bench.samples.models import Page, Point, Route, Statistics


def describe_column(table: str, column: str, quantiles: list[float] | None = None) -> Statistics:
    """Summarise a numeric column of a table.

    Missing values are left out of every figure.

    Parameters
    ----------
    table : str
        Name of the table, with its schema.
    column : str
        Name of the column; it must hold numbers.
    quantiles : list of float, optional
        Which quantiles to add, each between zero and one.

    Returns
    -------
    Statistics
        Count, mean and deviation, and the quantiles asked for.

    Raises
    ------
    KeyError
        If the table or the column does not exist.
    TypeError
        If the column holds text.

    Notes
    -----
    Quantiles are estimated from a sample of ten thousand rows when the table is larger
    than a million.
    """
    raise NotImplementedError


def moving_average(values: list[float], window: int = 7, centre: bool = False) -> list[float]:
    """Smooth a series with a moving average.

    Parameters
    ----------
    values : list of float
        The series, oldest value first.
    window : int, optional
        How many values are averaged.
    centre : bool, optional
        Whether the window looks both ways or only back.

    Returns
    -------
    list of float
        A series of the same length, shorter windows at its ends.

    Examples
    --------
    >>> moving_average([1.0, 2.0, 3.0], window=2)
    [1.0, 1.5, 2.5]
    """
    raise NotImplementedError


def fit_line(x: list[float], y: list[float]) -> dict[str, float]:
    """Fit a straight line by least squares.

    Parameters
    ----------
    x : list of float
        Where the measurements were taken.
    y : list of float
        What was measured, one value for each place.

    Returns
    -------
    dict
        Slope, intercept and the share of variance explained.

    Warnings
    --------
    Outliers pull the line towards them. Consider removing them before.

    See Also
    --------
    moving_average : Smooth the series first.
    """
    raise NotImplementedError


def detect_outliers(
    values: list[float], method: Literal["iqr", "zscore", "mad"] = "iqr", threshold: float = 1.5
) -> list[int]:
    """Find values that do not belong.

    Parameters
    ----------
    values : list of float
        The series to look at.
    method : {"iqr", "zscore", "mad"}
        How distance is judged.
    threshold : float, default 1.5
        From which distance on a value counts as an outlier.

    Returns
    -------
    list of int
        Positions of the outliers, counted from zero.

    References
    ----------
    Tukey, Exploratory Data Analysis, chapter 2.
    """
    raise NotImplementedError


def geocode(address: str, country: str | None = None) -> Point | None:
    """Turn an address into coordinates.

    Parameters
    ----------
    address : str
        The address in one line.
    country : str, optional
        Two letters; narrows the search.

    Returns
    -------
    Point or None
        The place, or nothing where the address is unknown.
    """
    raise NotImplementedError


def distance(start: Point, end: Point, unit: Literal["km", "mi"] = "km") -> float:
    """Distance between two places as the crow flies.

    Parameters
    ----------
    start : Point
        One place.
    end : Point
        The other place.
    unit : str
        Kilometres or miles.

    Returns
    -------
    float
        The length of the great circle, accurate to half a percent.
    """
    raise NotImplementedError


def plan_route(
    stops: list[Point], mode: Literal["car", "bike", "foot"] = "car", avoid_tolls: bool = False
) -> Route:
    """Plan the quickest way through several places.

    The order of the stops between the first and the last may change.

    Parameters
    ----------
    stops : list of Point
        Two places at least.
    mode : str
        How the traveller moves.
    avoid_tolls : bool
        Stay away from toll roads, whatever it costs in time.

    Returns
    -------
    Route
        Stops in the order they are reached, with length and duration.

    Raises
    ------
    ValueError
        If there is no road between two of the stops.
    """
    raise NotImplementedError


def nearest(point: Point, category: str, radius_m: int = 500, limit: int = 5) -> list[dict[str, Any]]:
    """Find what is close by.

    Parameters
    ----------
    point : Point
        Centre of the search.
    category : str
        For example ``pharmacy`` or ``charging_station``.
    radius_m : int
        How far to look, in metres.
    limit : int
        How many hits are enough.

    Returns
    -------
    list of dict
        Name, distance and opening hours of each hit, the closest first.

    Notes
    -----
    Opening hours are maintained by volunteers and may be stale.
    """
    raise NotImplementedError


def query_table(
    table: str, where: dict[str, str] | None = None, cursor: str | None = None, size: int = 100
) -> Page:
    """Read rows of a table.

    Parameters
    ----------
    table : str
        Name of the table.
    where : dict, optional
        Column names and the values they must have.
    cursor : str, optional
        Where the previous page ended.
    size : int
        Rows in a page.

    Returns
    -------
    Page
        Some rows and the cursor of the next page.
    """
    raise NotImplementedError


def export_table(
    table: str, file_format: Literal["csv", "parquet", "json"] = "csv", compress: bool = True
) -> str:
    """Write a table to the shared drive.

    Parameters
    ----------
    table : str
        Name of the table.
    file_format : str
        What the file shall be.
    compress : bool
        Whether to squeeze the file with zstd.

    Returns
    -------
    str
        Path of the file.

    Raises
    ------
    OSError
        If the drive is full.
    """
    raise NotImplementedError


def resample(
    series: str, every: Literal["minute", "hour", "day"], how: Literal["mean", "sum", "last"] = "mean"
) -> int:
    """Store a coarser copy of a time series.

    Parameters
    ----------
    series : str
        Name of the series.
    every : str
        Width of the new steps.
    how : str
        How the values within a step are combined.

    Returns
    -------
    int
        How many steps were written.

    Warnings
    --------
    An earlier copy of the same width is overwritten.
    """
    raise NotImplementedError


def correlate(first: list[float], second: list[float], lag: int = 0) -> float:
    """Correlation of two series.

    Parameters
    ----------
    first, second : list of float
        The two series, equally long.
    lag : int
        By how many steps the second is shifted.

    Returns
    -------
    float
        Pearson's coefficient, between minus one and one.
    """
    raise NotImplementedError


def forecast_sales(
    store: str, weeks: int = 4, seasonal: bool = True, level: float = 0.95
) -> list[tuple[float, float, float]]:
    """Forecast the sales of a store.

    Parameters
    ----------
    store : str
        Number of the store.
    weeks : int
        How far to look ahead.
    seasonal : bool
        Whether last year's rhythm is taken into account.
    level : float
        How sure the range shall be.

    Returns
    -------
    list of tuple
        Lower bound, expectation and upper bound for each week.

    Notes
    -----
    Stores younger than a year are forecast from their neighbours, whatever ``seasonal`` says.

    Examples
    --------
    Two weeks for the store in the main street:

    >>> forecast_sales("0042", weeks=2)
    [(90.0, 100.0, 110.0), (85.0, 99.0, 113.0)]
    """
    raise NotImplementedError


def histogram(values: list[float], bins: int = 10) -> list[tuple[float, int]]:
    """Count values by size.

    Parameters
    ----------
    values : list of float
        What to count.
    bins : int
        Number of equally wide classes.
    """
    raise NotImplementedError


def compare_periods(metric: str, current: str, previous: str) -> dict[str, float | None]:
    """Compare a metric between two periods.

    Parameters
    ----------
    metric : str
        Name of the metric.
    current : str
        The period of interest, such as ``2026-W09``.
    previous : str
        What it is compared with.

    Returns
    -------
    dict
        Both values and the change in percent, null where the earlier one is zero.
    """
    raise NotImplementedError
