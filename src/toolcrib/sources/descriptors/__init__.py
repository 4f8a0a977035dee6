"""Files that describe tools: what there is can be known where the code is not.

`read_descriptors` takes a JSON, YAML or TOML file, or a folder of them, in any of the forms in use;
`write_descriptor` makes one from any tools. Knows files and definitions; runs nothing, registers nothing.
"""

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
