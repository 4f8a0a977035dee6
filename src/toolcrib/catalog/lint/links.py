"""Rules for addresses that carry data out, or that a client may fetch just by showing the text.

Knows addresses as they are written; asks no network.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from toolcrib.catalog.lint.phrases import word_set
from toolcrib.catalog.lint.rule import Remark, Rule, Subject, quote

_DROP_HOSTS = word_set(
    "webhook.site webhook.cool requestbin. pipedream.net ngrok burpcollaborator.net oast interact.sh"
    " beeceptor.com requestcatcher.com hookbin.com dnslog.cn ceye.io canarytokens.com trycloudflare.com"
    " loca.lt serveo.net transfer.sh file.io 0x0.st paste.rs ix.io termbin.com postb.in ptsv discord"
    " telegram.org pastebin.com"
)
_DROPS = re.compile(
    r"(?i)(?:https?://)?(?:[\w-]+\.)*\b(?:webhook\.(?:site|cool)|requestbin\.(?:com|net|io)|pipedream\.net"
    r"|ngrok(?:-free)?\.(?:io|app|dev)|burpcollaborator\.net|oast(?:ify)?\.(?:com|fun|me|live|pro|site"
    r"|online)"
    r"|interact\.sh|beeceptor\.com|requestcatcher\.com|hookbin\.com|dnslog\.cn|ceye\.io|canarytokens\.com"
    r"|trycloudflare\.com|loca\.lt|serveo\.net|transfer\.sh|file\.io|0x0\.st|paste\.rs|ix\.io|termbin\.com"
    r"|postb\.in"
    r"|ptsv\d?\.com)\b[^\s)\"'>]*"
    r"|https?://(?:discord(?:app)?\.com/api/webhooks/\d{6,}|api\.telegram\.org/bot\d{6,}"
    r"|pastebin\.com/\w{6,})"
    r"[^\s)\"'>]*"
)
_ADDRESS = re.compile(r"(?i)\bhttps?://[^\s\"'`)]+")
_CARRIES = re.compile(
    r"(?i)[?&/](?:data|payload|leak|exfil|loot|dump|stolen|conversation|chat|history|secrets?|prompt"
    r"|context|ctx|msg"
    r"|keys?|creds?|credentials|env|cookies?|file|contents?)=(?:\{|<|\$|\[|%7b|\.\.\.|\+)"
)
_IMAGE = re.compile(
    r"!\[[^\]\n]{0,200}\]\(\s*<?\s*(?:https?:)?//[^)\s]+|<img\b[^>]{0,200}\bsrc\s*=\s*[\"']?(?:https?:)?//"
    r"|<iframe\b|<script\b",
    re.I,
)
_DATA = re.compile(
    r"(?i)\bdata:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*(?P<base64>;base64)?,(?P<body>[A-Za-z0-9+/=%_-]{24,})"
)
_CODE = re.compile(r"(?i)(?:^|[\s\"'(=<])(?:javascript|vbscript):\S{3,}|\bdata:text/html")
_MAY_EMBED = ("![", "<i", "<s", "data:", "script:")
_SENDS = re.compile(
    r"(?i)\b(?:send|post|upload|forward|transmit|report|submit|deliver|copy|mirror|beacon|ping|leak"
    r"|exfiltrate|curl|wget)\b"
    r"[^.!?\n]{0,80}\b(?:conversation|chat|history"
    r"|prompts?|credentials?|passwords?|secrets?|tokens?|keys?|environment|"
    r"files?|contents?|results?|responses?|everything|arguments?|inputs?)\b[^!?\n]{0,60}?\b(?:to|at"
    r"|via)\b\s{0,2}[`'\"<(]?https?://"
)
_OUR_OWN = re.compile(r"(?i)https?://(?:localhost|127\.|0\.0\.0\.0|\[::1\]|[\w.-]*\bexample\b)")


def find_drops(subject: Subject) -> Iterator[Remark]:
    for text in subject.texts if _find_drop(subject.joined) is not None else ():
        found = _find_drop(text.text)
        if found is not None:
            yield Remark(
                f"{text.label} of '{subject.name}' holds an address that carries data out:"
                f" {quote(found, 80)}",
                parameter=text.parameter,
                excerpt=found,
            )


def _find_drop(value: str) -> str | None:
    if "." not in value and "//" not in value:
        return None
    lower = value.lower()
    drop = _DROPS.search(value) if any(host in lower for host in _DROP_HOSTS) else None
    if drop is not None:
        return drop[0]
    if "http" not in lower:
        return None
    sends = _SENDS.search(value)
    if sends is not None and not _OUR_OWN.search(value, sends.start()):
        return sends[0]
    for found in _ADDRESS.finditer(value):
        if _CARRIES.search(found[0]) or _is_bare_number(found[0]):
            return found[0]
    return None


def _is_bare_number(address: str) -> bool:
    """A number of the open internet instead of a name: nobody's documentation looks like that."""
    host = re.sub(r"(?i)^https?://(?:[^/@]*@)?", "", address).split("/")[0].split(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_global and host not in ("1.1.1.1", "8.8.8.8", "1.2.3.4")
    except ValueError:
        return False


def find_embedded_media(subject: Subject) -> Iterator[Remark]:
    for text in subject.texts if any(sign in subject.lowered for sign in _MAY_EMBED) else ():
        value = text.text
        if text.kind == "link":
            data = _DATA.match(value)
            found = _CODE.search(value) or (
                data if data is not None and not (data["type"] or "").lower().startswith("image/") else None
            )
        else:
            found = _IMAGE.search(value) or _CODE.search(value) or _DATA.search(value)
        if found is not None:
            yield Remark(
                f"{text.label} of '{subject.name}' embeds what a client may fetch or run:"
                f" {quote(found[0].strip())}",
                parameter=text.parameter,
                excerpt=found[0].strip(),
            )


RULES = (
    Rule(
        "data-out",
        "warning",
        "A text holds an address that data can be carried to",
        "Drop boxes, bare numbers and addresses with a hole for data have no business in a definition.",
        "remove the address, or use one of your own under example.org",
        find_drops,
        in_check=True,
    ),
    Rule(
        "embedded-media",
        "warning",
        "A text embeds an image, a script or a data: address",
        "A client that shows the text fetches it, and tells its server who reads what.",
        "link to it in words; icons have a field of their own",
        find_embedded_media,
        in_check=True,
    ),
)
