"""Texts and names as words that can be compared: cut, folded, and reduced to a stem.

`create_pull_request`, `createPullRequest` and "Create a pull request" give the same words; `Café` gives
`cafe`; scripts without spaces give pairs of characters. Stems are English and cut little off: what they make
of words of other languages is the same on both sides. Knows letters; refuses to know tools and questions.

English as people use it when they ask for a tool: idle words, odd forms, words that mean the same.

Small on purpose, and about the things that tools do. Knows words; refuses to know how they are weighed.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import chain

_IDLE = (
    "a about all am an and any are as at be been being but by can could do does for from had has have having",
    "how i if in into is it its let me my need needs of on onto or our please s shall should so some t that",
    "the their them then there these this those through to tool tools us use used uses using via want wants",
    "was we were what when where which who whose will with would you your",
)
IDLE = frozenset(word for line in _IDLE for word in line.split())
"""Left out of a question where other words remain; counted in names, not in descriptions."""

IRREGULAR = {
    form: word
    for word, forms in {
        "analyze": "analysis analyses analytics analyse analysed analysing analyzer",
        "authenticate": "authentication",
        "become": "became",
        "begin": "began begun beginning",
        "bind": "bound",
        "book": "booking bookings",
        "break": "broke broken",
        "bring": "brought",
        "build": "built",
        "buy": "bought",
        "catch": "caught",
        "child": "children",
        "choose": "chose chosen choice",
        "compare": "comparison comparisons",
        "convert": "conversion conversions",
        "datum": "data",
        "describe": "description descriptions",
        "die": "dying",
        "duplicate": "duplication",
        "draw": "drew drawn",
        "drive": "drove driven",
        "extend": "extension extensions",
        "find": "found",
        "forecast": "forecasted",
        "forget": "forgot forgotten",
        "freeze": "froze frozen",
        "get": "got gotten getting",
        "give": "gave given",
        "go": "went gone",
        "hide": "hid hidden",
        "hold": "held",
        "index": "indices indexes",
        "install": "installation installations",
        "keep": "kept",
        "know": "knew known",
        "leave": "left",
        "lose": "lost",
        "make": "made maker",
        "man": "men",
        "matrix": "matrices",
        "mean": "meant",
        "meet": "met",
        "pay": "paid payment payments",
        "permit": "permission permissions",
        "person": "people persons",
        "produce": "production",
        "put": "putting",
        "read": "reader readers",
        "replicate": "replication",
        "reply": "replied replies",
        "run": "ran running",
        "schedule": "scheduled",
        "see": "saw seen",
        "sell": "sold",
        "send": "sent sender",
        "set": "setting",
        "show": "shown",
        "spend": "spent",
        "submit": "submission submissions",
        "subscribe": "subscription subscriptions",
        "take": "took taken",
        "tell": "told",
        "transcribe": "transcription transcript",
        "understand": "understood",
        "vertex": "vertices",
        "write": "wrote written",
    }.items()
    for form in forms.split()
}

SAME = tuple(
    tuple(group.split())
    for group in (
        # what is done
        "delete remove erase destroy purge trash discard",
        "list show get fetch retrieve display view read",
        "search find lookup query locate",
        "create add make new insert generate",
        "update edit modify change alter patch",
        "send deliver dispatch",
        "post publish share",
        "run execute launch invoke perform",
        "start begin launch boot",
        "stop end terminate kill halt abort",
        "cancel abort revoke",
        "copy duplicate clone",
        "rename relabel",
        "move transfer relocate",
        "open launch",
        "close shut",
        "download fetch pull",
        "upload import",
        "merge combine join concatenate",
        "split divide",
        "convert transform translate",
        "check verify validate test",
        "count number total",
        "sum add total",
        "compute calculate evaluate",
        "summarize abstract digest",
        "schedule plan arrange",
        "book reserve",
        "buy purchase order",
        "refund reimburse",
        "approve accept confirm",
        "reject decline deny refuse",
        "enable activate",
        "disable deactivate",
        "compress zip archive pack",
        "extract unzip unpack decompress",
        "encrypt cipher",
        "login signin authenticate",
        "assign allocate",
        "invite add",
        "reset clear",
        "restart reboot",
        "restore recover undo",
        "notify alert remind",
        "shrink resize scale",
        # what it is done to
        "email mail message",
        "chat message",
        "photo image picture img",
        "folder directory dir",
        "repository repo",
        "configuration config setting preference",
        "database db",
        "document doc",
        "file document",
        "meeting appointment event",
        "customer client buyer",
        "price cost rate",
        "weather forecast temperature",
        "employee staff worker",
        "invoice bill",
        "ticket issue bug",
        "user account member person",
        "task todo",
        "phone telephone call",
        "movie film video",
        "song track music",
        "page website site url link",
        "currency money",
        "error exception failure",
        "log journal",
        "map route direction",
        "stock share inventory",
        "package parcel shipment",
        "holiday vacation leave",
        "salary wage payroll",
        "password secret credential",
        "spreadsheet sheet",
        "job task process",
        "container docker",
        "server machine instance host",
        "metric measurement statistic",
        "news article",
        "comment remark",
        "review rating",
        "address location place",
        "flight plane",
        "hotel room accommodation",
    )
)
"""Words that people use for each other. What is found by another word of a group counts a little less."""


LONGEST_WORD = 64

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_LOWER = rf"[^\W\d_A-Z{_UNSPACED}]"
_CHUNKS = re.compile(r"[^\W_]+")
_ASCII_CHUNKS = re.compile("[A-Za-z0-9]+")  # twice as fast
_PARTS = re.compile(
    rf"[{_UNSPACED}]+|[A-Z]{{2,}}s(?!{_LOWER})[0-9]*|[A-Z]+(?!{_LOWER})[0-9]*|[A-Z]?{_LOWER}+[0-9]*|[0-9]+"
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_MARKS = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i"}
)


_KEPT = 50_000


class _Cuts(dict[str, tuple[str, ...]]):
    """What stands between two signs, and its words: nearly all of it comes again and again."""

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        words = cut_chunk(chunk)
        if len(self) < _KEPT and len(chunk) <= LONGEST_WORD:
            self[chunk] = words
        return words


_CUTS = _Cuts()


def cut(text: str) -> list[str]:
    """All words of a text, as often as they are there."""
    chunks = _ASCII_CHUNKS.findall(text) if text.isascii() else _CHUNKS.findall(fold(text))
    return list(chain.from_iterable(map(_CUTS.__getitem__, chunks)))


def fold(text: str) -> str:
    """Without marks on letters, and one spelling per character. Capitals stay: words may join there."""
    apart = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFKC", apart)


def cut_chunk(chunk: str) -> tuple[str, ...]:
    """The words between two signs: `getUser` is `get` and `user`, `GitHub` is also `github`."""
    if chunk.isascii() and (chunk.islower() or chunk[1:].islower()) and chunk.isalpha():
        return (chunk.lower()[:LONGEST_WORD],)
    words: list[str] = []
    parts = _PARTS.findall(chunk)
    for part in parts:
        if _IS_UNSPACED.match(part):
            words += _pairs(part)
            continue
        word = part.casefold().translate(_LETTERS)[:LONGEST_WORD]
        words.append(word)
        letters = word.rstrip("0123456789")
        if letters != word and len(letters) > 1:
            words.append(letters)
    if len(parts) == 2 and chunk.isascii() and len(chunk) <= 16:
        words.append(chunk.lower())
    return tuple(words)


def _pairs(run: str) -> list[str]:
    if len(run) == 1:
        return [run]
    return [run[start : start + 2] for start in range(len(run) - 1)]


# --- stems -------------------------------------------------------------------------------------------

_VOWELS = frozenset("aeiouy")
_ENDINGS = (
    # ending, what stands in its place, how many letters must be left
    ("izations", "iz", 3),
    ("ization", "iz", 3),
    ("isation", "iz", 3),
    ("ications", "y", 2),
    ("ication", "y", 2),
    ("ations", "at", 3),
    ("ation", "at", 3),
    ("itions", "it", 3),
    ("ition", "it", 3),
    ("ctions", "ct", 2),
    ("ction", "ct", 2),
    ("ptions", "pt", 3),
    ("ption", "pt", 3),
    ("ssions", "ss", 3),
    ("ssion", "ss", 3),
    ("etions", "et", 3),
    ("etion", "et", 3),
    ("utions", "ut", 3),
    ("ution", "ut", 3),
    ("ements", "", 3),
    ("ement", "", 3),
    ("ments", "", 4),
    ("ment", "", 4),
    ("iers", "y", 3),
    ("ier", "y", 3),
    ("ies", "y", 2),
    ("ied", "y", 2),
    ("ings", "", 3),
    ("ing", "", 3),
    ("ers", "", 4),
    ("ors", "", 4),
    ("er", "", 4),
    ("or", "", 4),
    ("eed", "eed", 1),
    ("ed", "", 3),
    ("sses", "ss", 2),
    ("ches", "ch", 2),
    ("shes", "sh", 2),
    ("xes", "x", 2),
    ("zes", "z", 2),
    ("ss", "ss", 1),
    ("us", "us", 1),
    ("is", "is", 1),
    ("s", "", 3),
)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """What the forms of a word have in common: `deleting`, `deleted` and `deletion` are `delet`."""
    known = IRREGULAR.get(word)
    if known is not None:
        word = known
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    for ending, instead, left in _ENDINGS:
        if word.endswith(ending):
            cut_off = word[: len(word) - len(ending)]
            if len(cut_off) >= left and not _VOWELS.isdisjoint(cut_off):
                word = _undouble(cut_off) if not instead else cut_off + instead
                break
    return _tidy(word)


def _undouble(word: str) -> str:
    """`runn` is `run`; `call` and `pass` stay."""
    is_double = len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz" and word[-1] not in _VOWELS
    return word[:-1] if is_double else word


def _tidy(word: str) -> str:
    """The last letter that comes and goes: `delete`, `query`, `summarise`."""
    if len(word) > 5 and word.endswith(("ise", "ize", "yse", "yze")):
        word = f"{word[:-2]}z"
    elif len(word) > 5 and word.endswith(("is", "ys")) and word[-3] not in "aeiou":
        word = f"{word[:-1]}z"
    if len(word) > 3 and word[-1] == "e":
        return word[:-1]
    if len(word) > 3 and word[-1] == "y" and word[-2] not in _VOWELS:
        return f"{word[:-1]}i"
    return word
