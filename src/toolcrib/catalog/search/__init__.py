"""Search for tools by what they do: `SearchIndex(tools).search("deleting files")` finds `delete_file`.

Results are ranked by where the words are in a definition. Forms of words and synonyms match, too.
"""

from toolcrib.catalog.search.index import Allowed, Hit, Place, SearchIndex, split_words, words_by_place

__all__ = ["Allowed", "Hit", "Place", "SearchIndex", "split_words", "words_by_place"]
