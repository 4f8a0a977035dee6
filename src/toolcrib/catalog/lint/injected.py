"""Lint rules for text that somebody may have injected: instructions, links, credentials and hidden text.

Models follow what a skill says, so the rules hold for its text, too; its links lead to its files.

Phrases and patterns are in `data/`. Phrases are looked for in folded text, so that look-alike letters,
accents, markup and s p r e a d words do not hide them. These rules only report: a person decides. Invisible
characters in names, descriptions and schemas are refused when a tool is built; these rules also cover
annotations, icons and `_meta`.
"""

from __future__ import annotations

import base64
import binascii
import html
import ipaddress
import math
import posixpath
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import unquote

from toolcrib.catalog.lint.rule import LintedTool, Problem, Rule, Text, fold, quote, read_data, text_problem
from toolcrib.component import Component
from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding
from toolcrib.names import find_hidden
from toolcrib.sources.skills import MAIN_FILE, Skill

DATA = Path(__file__).parent / "data"


def join_lines(text: str) -> str:
    """Return a pattern without its line breaks and indentation."""
    return "".join([line.strip() for line in text.splitlines()])


_SOURCES = tomllib.loads((DATA / "patterns.toml").read_text("utf-8"))
_PATTERNS = {
    name: re.compile(join_lines(text))
    for name, text in _SOURCES.items()
    if name not in ("channel_names", "credentials")
}

Found = tuple[str, str] | None
"""The text for a message, and the text to look for in the source."""


def _text_check(
    message: str,
    find: Callable[[Text], Found],
    is_likely: Callable[[LintedTool], bool] | None = None,
) -> Callable[[LintedTool], Iterator[Problem]]:
    """Return a check of every text, skipped if nothing is found in all texts together."""

    def check(tool: LintedTool) -> Iterator[Problem]:
        if not (is_likely(tool) if is_likely else find(Text("", tool.joined_text))):
            return
        for text in tool.texts:
            if found := find(text):
                shown, excerpt = found
                yield text_problem(tool, text, f"{message}: {shown}", excerpt)

    return check


# --- matching -----------------------------------------------------------------------------------------

# A sentence about a setting gives no orders, nor does one with examples of wanted texts.
_SETTING = re.compile(
    r"\b(?:whether|(?:if|when) (?:true|false|set|enabled|given|yes|provided|specified|omitted)"
    r"|(?:true|false|set) to|defaults? to|optional|flag|option|e\.g\.|for example|such as|detects?"
    r"|checks? for)[^.!?;]*$"
)


class Phrase:
    """A pattern of the data file."""

    def __init__(self, source: str, vocabulary: Mapping[str, str]) -> None:
        self._source, self._vocabulary = source, vocabulary

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        source = self._source
        while (filled := _PLACEHOLDER.sub(lambda name: self._vocabulary[name[1]], source)) != source:
            source = filled
        return re.compile(join_lines(source))

    def find(self, readings: Sequence[str]) -> str | None:
        """Return the matching part of the first reading that matches."""
        for reading in readings:
            for found in self._pattern.finditer(reading):
                if not _SETTING.search(reading, max(0, found.start() - 200), found.start()):
                    return found[0].strip()
        return None


_PLACEHOLDER = re.compile("<([A-Z_]+)>")


@cache
def load_phrases() -> dict[str, list[Phrase]]:
    """Return the phrases by kind of instruction. The file is read once."""
    entries = tomllib.loads((DATA / "phrases.toml").read_text("utf-8"))
    vocabulary = entries.pop("vocabulary")
    return {kind: [Phrase(source, vocabulary) for source in items] for kind, items in entries.items()}


# --- instructions -------------------------------------------------------------------------------------

_SHORTEST_TEXT = 10
_ROLE_MARKERS = ("role_tag", "uppercase_role", "dialogue")
# One of these is in every text that the three patterns match.
_MARKER_PARTS = (
    *("<", "[", "#", "{{", "--", "SYSTEM", "ASSISTANT", "ssistant", "AI:", "ai:"),
    *("egin", "EGIN", "end ", "END "),
)
_CHANNEL_NAMES = frozenset(_SOURCES["channel_names"].split())


def _phrase_check(kind: str, message: str) -> Callable[[LintedTool], Iterator[Problem]]:
    """Return a check that reports the first phrase of a kind in each text."""

    def check(tool: LintedTool) -> Iterator[Problem]:
        matchers = [phrase for phrase in load_phrases()[kind] if phrase.find(tool.readings)]
        for text in tool.texts if matchers else ():
            if len(text.text) >= _SHORTEST_TEXT or not text.text.isascii():
                readings = fold(text.plain)
                matches = (matcher.find(readings) for matcher in matchers)
                found = next((match for match in matches if match is not None), None)
                if found is not None:
                    yield text_problem(tool, text, f"{message}: {quote(found, 80)}", found)

    return check


def _find_role_marker(text: Text) -> Found:
    if not any(part in text.text for part in _MARKER_PARTS):
        return None
    found = next(filter(None, (_search_used(_PATTERNS[name], text.text) for name in _ROLE_MARKERS)), None)
    if found is not None and found.re is _PATTERNS["dialogue"] and "xample" in text.text[: found.end()]:
        return None
    excerpt = "" if found is None else found[0].strip(" \n.!?")
    return (quote(excerpt), excerpt) if found else None


def _search_used(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Find a marker that is used, not one that is spoken of ("with [INST] and [/INST] around a turn")."""
    matches = pattern.finditer(text)
    return next((found for found in matches if not _PATTERNS["names_marker"].match(text, found.end())), None)


def find_hidden_channels(tool: LintedTool) -> Iterator[Problem]:
    purpose = f"{' '.join(tool.name_words)} {tool.description.lower()}"
    if _PATTERNS["conversation_tool"].search(purpose):
        return
    for name, schema in tool.parameter_schemas.items():
        plain = re.sub(r"[^a-z]+", "_", name.lower()).strip("_")
        description = schema.get("description")
        is_general = isinstance(description, str) and _PATTERNS["general_name"].search(plain) is not None
        if plain in _CHANNEL_NAMES or (
            is_general and _PATTERNS["asks_for_conversation"].search(fold(str(description))[-1])
        ):
            yield Problem(
                f"Parameter '{name}' of '{tool.name}' seems meant to carry the conversation to the server",
                parameter=name,
            )


find_role_markers = _text_check("contains a role marker", _find_role_marker)
find_overrides = _phrase_check("override", "tells the model to ignore its instructions")
find_secrecy = _phrase_check("secrecy", "tells the model to keep something from the user")
find_demands = _phrase_check("demand", "asks for data the tool has no use for")
find_interference = _phrase_check("interference", "interferes with other tools")
find_self_promotion = _phrase_check("self-promotion", "asks for the tool to be preferred")

# --- links --------------------------------------------------------------------------------------------

_URL = re.compile(r"(?i)\bhttps?://[^\s\"'`)]+")
_PUBLIC_EXAMPLES = ("1.1.1.1", "8.8.8.8", "1.2.3.4")
_EMBEDDED_PARTS = ("![", "<i", "<s", "data:", "script:")


def _find_exfiltration_url(text: Text) -> Found:
    found = _exfiltration_url(text.text)
    return (quote(found, 80), found) if found else None


def _exfiltration_url(text: str) -> str | None:
    if "." not in text and "//" not in text:
        return None
    drop = _PATTERNS["drop_host"].search(text)
    if drop is not None:
        return drop[0]
    if "http" not in text.lower():
        return None
    sends = _PATTERNS["sends_to_url"].search(text)
    if sends is not None and not _PATTERNS["local_url"].search(text, sends.start()):
        return sends[0]
    urls = (found[0] for found in _URL.finditer(text))
    return next((url for url in urls if _PATTERNS["data_parameter"].search(url) or _has_public_ip(url)), None)


def _has_public_ip(url: str) -> bool:
    """Tell whether the host is an address of the public internet, which documentation hardly ever uses."""
    host = re.sub(r"(?i)^https?://(?:[^/@]*@)?", "", url).split("/")[0].split(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_global and host not in _PUBLIC_EXAMPLES
    except ValueError:
        return False


def _find_embedded_media(text: Text) -> Found:
    found = _PATTERNS["script_url"].search(text.text)
    if text.kind == "link":
        data = _PATTERNS["data_url"].match(text.text)
        is_image = data is not None and (data["type"] or "").lower().startswith("image/")
        found = found or (None if is_image else data)
    else:
        found = _PATTERNS["embedded"].search(text.text) or found or _PATTERNS["data_url"].search(text.text)
    return (quote(found[0].strip()), found[0].strip()) if found else None


find_exfiltration_urls = _text_check("contains a URL that data can be sent to", _find_exfiltration_url)
find_embedded_media = _text_check(
    "embeds content that a client may fetch or run",
    _find_embedded_media,
    lambda tool: any(part in tool.lower_text for part in _EMBEDDED_PARTS),
)

# --- credentials --------------------------------------------------------------------------------------
#
# A long random string counts only if its name says key, token or password: ids and hashes are random too.
# A finding never repeats the credential.

_PRIVATE_KEY = "a private key"
_KNOWN_FORMATS = [(label, piece, re.compile(pattern)) for label, piece, pattern in _SOURCES["credentials"]]
_SECRET_WORDS = ("pass", "pwd", "secret", "token", "key", "auth")
_RANDOM = re.compile(r"[A-Za-z0-9+/_=-]{20,200}")


def _may_have_credentials(tool: LintedTool) -> bool:
    text = tool.joined_text
    return (
        any(piece in text for _, piece, _ in _KNOWN_FORMATS)
        or any(_PATTERNS["secret_name"].search(name) for name in tool.parameters)
        or any(word in tool.lower_text for word in _SECRET_WORDS)
        or "://" in text
    )


def _find_credential(text: Text) -> Found:
    credential = _credential(text)
    if credential is None:
        return None
    value, label = credential
    return f"{label} ({value[:4]}..., {len(value)} characters)", value


def _credential(text: Text) -> tuple[str, str] | None:
    """Return the credential in a text and its kind."""
    value = text.text
    if len(value) < 12 or text.kind == "link":
        return None
    for label, piece, pattern in _KNOWN_FORMATS:
        if piece in value:
            for found in pattern.finditer(value):
                if label == _PRIVATE_KEY or not _is_placeholder(found[0]):
                    return found[0], label
    if ":" in value or "=" in value or " is " in value:
        for name, label in (("in_url", "a password in a URL"), ("assigned", "a password")):
            for found in _PATTERNS[name].finditer(value):
                if _is_random(found["value"]):
                    return found["value"], label
    is_named = text.kind == "value" and _PATTERNS["secret_name"].search(text.parameter or "") is not None
    if is_named and _RANDOM.fullmatch(value) and _is_random(value):
        return value, "a credential"
    return None


def _is_placeholder(text: str) -> bool:
    """Tell `sk-your-key-here`, `AKIAIOSFODNN7EXAMPLE` and `xxxxxxxx` from keys."""
    return _PATTERNS["placeholder"].search(text) is not None or len(set(text)) < min(8, len(text) * 0.4)


def _is_random(text: str) -> bool:
    """Tell generated keys, which mix letters and digits, from placeholders, words, paths and dates."""
    has_digit = any(character.isdigit() for character in text)
    has_letter = any(character.isalpha() for character in text)
    if not has_digit or not has_letter or text.count("/") > 2 or text.count(".") > 1 or len(text) < 10:
        return False
    counts = Counter(text).values()
    entropy = -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
    return entropy >= min(3.0, math.log2(len(text)) * 0.85) and not _is_placeholder(text)


find_credentials = _text_check("contains what looks like a secret", _find_credential, _may_have_credentials)

# --- hidden text --------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]{2,}")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET", "GEORGIAN")
_UNIT_SIGNS = "µμΩ℃Åªº"
_BLANKS = (" " * 10, "\t" * 4, "\n\n", "\n ", "\n\t")


def _find_lookalike_letters(text: str) -> str | None:
    """Find a word of two scripts that share letter shapes, or letters in another style."""
    if text.isascii():
        return None
    styled = _PATTERNS["styled_letters"].search(text)
    if styled is not None:
        return quote(text[max(0, styled.start() - 5) : styled.end() + 5])
    for word in _WORD.findall(text):
        if not word.isascii() and len({script for letter in word if (script := _script_of(letter))}) > 1:
            return quote(word)
    return None


def _script_of(letter: str) -> str | None:
    if letter.isascii():
        return "LATIN"
    name = "" if letter in _UNIT_SIGNS else unicodedata.name(letter, "")
    return next((script for script in _SCRIPTS if name.startswith(script)), None)


def _find_comment(text: str) -> str | None:
    if "<!" not in text and "[" not in text and "style" not in text.lower():
        return None
    found = _PATTERNS["comment"].search(text) or _PATTERNS["hiding_style"].search(text)
    return quote(found[0]) if found is not None else None


def _find_text_after_blanks(text: str) -> str | None:
    """Find text behind so many blanks that a window no longer shows it."""
    if text.isascii() and not any(blanks in text for blanks in _BLANKS):
        return None
    for found in _PATTERNS["blank_run"].finditer(text):
        rest = text[found.end() :].strip()
        if rest:
            return f"{len(found[0])} blanks before {quote(rest, 40)}"
    return None


# --- encoded text -------------------------------------------------------------------------------------

_MIN_ENCODED_SPACES = 4
"""Shorter texts are sample values: "user:password", "This is a test"."""
_ESCAPE = re.compile(r"(?i)%[0-9a-f]{2}%|&#|\\[ux]")
_LONG_HEX = re.compile(r"\W{0,3}[0-9a-f:x]{20}")
_HEX_PAIRS = re.compile(r"[2-7][0-9a-fA-F][\s:][2-7][0-9a-fA-F][\s:][2-7]|[01]{8}")  # the range of letters


def _find_encoded_text(text: str) -> str | None:
    """Find base64, base32, hex, binary or escapes that decode to words."""
    if len(text) < 18 or not (_ESCAPE.search(text) or _HEX_PAIRS.search(text) or _has_long_token(text)):
        return None
    for name, decode in _DECODERS.items():
        for found in _PATTERNS[name].finditer(text):
            try:
                decoded = decode(found[0])
            except (binascii.Error, ValueError, OverflowError):
                continue
            if _is_readable(decoded) or _is_order(decoded):
                return f"{quote(found[0], 24)} reads {quote(decoded, 50)}"
    return None


def _has_long_token(text: str) -> bool:
    """Tell whether some word is long enough to be an encoding, and is not just a long name."""
    return any(
        len(word) >= 20 and (not word.islower() or _LONG_HEX.match(word) is not None) for word in text.split()
    )


def _is_readable(text: str) -> bool:
    """Tell whether decoded text is mostly letters and spaces, so that a person must have written it."""
    if len(text) < 5 or not text.replace("\n", "").replace("\t", "").isprintable():
        return False
    letters = sum(letter.isalpha() or letter == " " for letter in text)
    return letters >= 0.75 * len(text) and text.count(" ") >= _MIN_ENCODED_SPACES


def _is_order(text: str) -> bool:
    """Tell whether decoded text, however short, tells the model to ignore its instructions."""
    return any(phrase.find(fold(text)) for phrase in load_phrases()["override"])


def _decode_base64(text: str) -> str:
    if text.islower() or text.isupper() or text.isdigit() or (text.isalpha() and len(text) < 32):
        return ""  # a plain word or number
    return base64.b64decode(_pad(text, 4), altchars=b"-_" if "-" in text or "_" in text else None).decode()


def _pad(text: str, size: int) -> str:
    bare = text.rstrip("=")
    return bare + "=" * (-len(bare) % size)


def _decode_escapes(text: str) -> str:
    plain = html.unescape(unquote(text))
    return plain.encode().decode("unicode_escape") if "\\" in plain else plain


_DECODERS: dict[str, Callable[[str], str]] = {
    "base64": _decode_base64,
    "base32": lambda text: base64.b32decode(_pad(text, 8)).decode(),
    "hexadecimal": lambda text: bytes.fromhex(re.sub(r"0x|[\s:]", "", text)).decode(),
    "binary": lambda text: bytes(int(digits, 2) for digits in re.findall("[01]{8}", text)).decode("latin-1"),
    "escapes": _decode_escapes,
}


def _hidden_check(
    find: Callable[[str], str | None], message: str
) -> Callable[[LintedTool], Iterator[Problem]]:
    def find_in(text: Text) -> Found:
        found = find(text.text)
        return (found, found[:40]) if found else None

    return _text_check(message, find_in)


check_hidden_characters = _hidden_check(find_hidden, "contains an invisible character")
check_lookalike_letters = _hidden_check(_find_lookalike_letters, "mixes look-alike letters")
check_encoded_text = _hidden_check(_find_encoded_text, "contains encoded text")
check_comments = _hidden_check(_find_comment, "contains a comment that clients do not show")
check_blanks = _hidden_check(_find_text_after_blanks, "hides text behind blanks")


# --- skills -------------------------------------------------------------------------------------------

_LINK = re.compile(r"\[[^\[\]\n]{0,500}\]\(\s*<?([^()<>\s]{1,1000})")
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


class LintedSkill(LintedTool):
    """A skill as the rules for injected text see it: a name, a description, and the text of SKILL.md."""

    def __init__(self, skill: Skill, tool: Component) -> None:
        super().__init__(tool, ToolDefinition(skill.name, skill.description, source=skill.source))
        self.skill = skill

    @cached_property
    def texts(self) -> list[Text]:
        facts = self.skill.frontmatter.items()
        end = re.compile(r"^---[ \t]*\r?$", re.MULTILINE).search(self.skill.text, 4)
        return [
            Text("the name", self.skill.name, "name"),
            *(text for key, value in facts for text in read_data(value, f"the {key}")),
            Text("the text", self.skill.text[0 if end is None else end.end() :]),
        ]


def inspect_skills(
    tools: Iterable[Component], rules: Iterable[Rule], codes: Collection[str]
) -> Iterator[Finding]:
    """Yield the problems of skills among resources: findings of these rules, and dead links."""
    for tool in tools:
        skill: Skill | None = getattr(tool, "skill", None)
        if skill is not None:
            linted = LintedSkill(skill, tool)
            for rule in rules:
                for problem in rule.check(linted) if rule.check is not None and rule.code in codes else ():
                    finding = rule.finding(linted, problem)
                    line = _line_of(skill.text, problem.excerpt or "")
                    message = finding.message.replace(" of '", " of skill '", 1)
                    yield replace(finding, message=message, tool=None, line=line)
            yield from _find_dead_links(skill)


def _line_of(text: str, excerpt: str) -> int:
    """Return the line in which an excerpt begins, ignoring case and blanks; else the first."""
    wanted = " ".join(excerpt.split()).casefold()[:24]
    for number, line in enumerate(text.split("\n"), 1):
        if wanted and wanted in " ".join(line.split()).casefold():
            return number
    return 1


def _find_dead_links(skill: Skill) -> Iterator[Finding]:
    """Yield a finding for each relative link in SKILL.md that is not to a file or folder of the skill."""
    shown = _CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), skill.text)
    folders = {posixpath.dirname(path) for path in skill.paths}
    for found in _LINK.finditer(shown):
        link = found[1]
        if _HAS_SCHEME.match(link):
            continue
        path = posixpath.normpath(unquote(re.split(r"[#?]", link)[0]))
        line = shown.count("\n", 0, found.start()) + 1
        if path.startswith(("../", "/")) or path == "..":
            text = (
                f"{MAIN_FILE} of skill '{skill.name}' links to {quote(link)}, which is outside of the skill"
            )
            hint = "move the file into the skill: clients get nothing else"
            yield Finding("outside-link", "warning", text, None, None, skill.source.file, line, hint)
        elif path not in skill.paths and path not in folders and path != ".":
            text = f"{MAIN_FILE} of skill '{skill.name}' links to {quote(link)}, which does not exist"
            yield Finding("dead-link", "warning", text, None, None, skill.source.file, line, "fix the link")
