"""Descriptors: JSON, YAML and TOML files that describe tools whose code is elsewhere."""

from toolcrib.sources.descriptors.read import Descriptors, is_descriptor, read_descriptors
from toolcrib.sources.descriptors.text import SUFFIXES
from toolcrib.sources.descriptors.write import FORMATS, Format, write_descriptor

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "Descriptors",
    "Format",
    "is_descriptor",
    "read_descriptors",
    "write_descriptor",
]
