"""Search for tools by what they do: `SearchIndex(tools).search("deleting files")` finds `delete_file`.

Results are ranked by where the words are in a definition. Typos, forms of words and synonyms are forgiven.
"""

from toolcrib.catalog.search.index import Allowed, Hit, Place, SearchIndex, words_by_place

__all__ = ["Allowed", "Hit", "Place", "SearchIndex", "words_by_place"]
