"""Stands for a package that is not installed."""


class Integration:
    pass
