"""Finding tools by what they do, in whatever words somebody asks for them.

`SearchIndex(tools).search("deleting files")` finds `delete_file`: ranked by where the words stand, forgiving
of typos and forms of words, with a small table of words that mean the same. Never runs a tool.
"""

from toolcrib.catalog.search.index import Allowed, Hit, Place, SearchIndex, words_by_place

__all__ = ["Allowed", "Hit", "Place", "SearchIndex", "words_by_place"]
