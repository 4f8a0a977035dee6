"""Planted instructions in other languages: to set orders aside, and to keep quiet. A model reads them all.

Latin letters are matched without their marks, as `fold` gives them. Knows phrases only.

What planted instructions sound like: patterns over folded text, each behind words that must occur first.

Looking words up in a set is a hundred times cheaper than a pattern, and honest texts rarely hold them all.
Knows phrases; refuses to know definitions. The patterns were written from what such attacks have to say.

Words that planted instructions are made of: as patterns, and (`..._WORDS`) as what must occur first.

Knows English words only.

Planted instructions in English: to set orders aside, and to keep quiet.

Rows for `Phrases`. A pattern stays within a sentence unless a path may stand in it. Each was tried on the
descriptions of real servers, and is as wide as those allow. Knows phrases only.

Planted instructions in English: to hand over what is private, to turn other tools, and to be called first.

Rows for `Phrases`, as in `english`. Knows phrases only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from unicodedata import normalize

_compile = cache(re.compile)
_WORDS = re.compile(r"[a-z0-9]+")
_STEM = 6
"""So many letters of a word are enough to know it by."""


@dataclass(frozen=True, slots=True)
class Gist:
    """All that a definition says, in one: what is not found here is in none of its texts."""

    readings: tuple[str, ...]
    stems: frozenset[str]

    @classmethod
    def of(cls, readings: tuple[str, ...]) -> Gist:
        return cls(
            readings, frozenset(word[:_STEM] for reading in readings for word in _WORDS.findall(reading))
        )


class Phrases:
    """Rows of (what must occur, pattern).

    What must occur are words separated by blanks, of which one suffices, in groups separated by `&`, of which
    each must be met. A row that begins with `=` gives pieces of text instead, separated by bars, for scripts
    that put no blanks between words.
    """

    def __init__(self, *rows: tuple[str, str]) -> None:
        # Folded text is in this form, which takes some letters of Thai and others apart.
        self._rows = [
            (_read_need(normalize("NFKC", need)), normalize("NFKC", pattern)) for need, pattern in rows
        ]

    def apply(self, gist: Gist) -> list[re.Pattern[str]]:
        """The patterns that are to be found in a definition with this gist."""
        met = (_compile(pattern) for need, pattern in self._rows if _is_met(need, gist))
        return [pattern for pattern in met if any(map(pattern.search, gist.readings))]


Need = list[frozenset[str]] | tuple[str, ...]


def _read_need(need: str) -> Need:
    if need.startswith("="):
        return tuple(need[1:].split("|"))
    return [frozenset(word[:_STEM] for word in group.split()) for group in need.split("&")]


def _is_met(need: Need, gist: Gist) -> bool:
    if isinstance(need, tuple):
        for reading in gist.readings:
            for piece in need:  # as loops: this is asked some sixty times for every tool
                if piece in reading:
                    return True
        return False
    return not any(map(gist.stems.isdisjoint, need))


def search(patterns: list[re.Pattern[str]], readings: tuple[str, ...]) -> str | None:
    """What the first of the patterns finds, in the words of the reading that it is found in."""
    for found in _search(patterns, readings):
        return found
    return None


def _search(patterns: list[re.Pattern[str]], readings: tuple[str, ...]) -> Iterator[str]:
    for reading in readings:
        for pattern in patterns:
            found = pattern.search(reading)
            if found is not None:
                yield found[0].strip()


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def one_of(words: str) -> str:
    """A pattern for any of the words; `_` stands for a blank within one."""
    return "(?:" + "|".join(word.replace("_", " ") for word in words.split()) + ")"


GAP = r"[^.!?;]{0,40}?"
NEAR = r"[^.!?;]{0,25}?"
NOT = one_of(
    "do_not don't dont never must_not mustn't should_not shouldn't cannot can't not_to refrain_from avoid"
    " need_not"
)
NOT_WORDS = "not don't don dont never mustn shouldn cannot can refrain avoid"
EARLIER = one_of(
    "previous prior earlier preceding foregoing above former past existing original initial other these those"
)
ORDERS = one_of(
    "instructions? prompts? directives? directions guidelines? guidance commands? orders"
    " guardrails? programming"
)
ORDER_WORDS = (
    "instructions prompts directives directions guidelines guidance commands orders guardrails programming"
)
RULES = one_of(
    "rules? polic(?:y|ies) restrictions? constraints? limitations? safeguards? context training messages?"
)
RULE_WORDS = (
    "rule rules policy policies restrictions constraints limitations safeguards context training messages"
)
MASTER = one_of("system developer'?s? operator'?s? host'?s? user'?s? safety your")
USER = (
    r"(?:the |your |an?y? |this )?(?:end[- ]?)?(?:users?|humans?|persons?|people"
    r"|customers?|operators?|anyone|anybody"
    r"|them|him|her)"
)
USER_WORDS = (
    "user users human humans person persons people customers operators anyone anybody them him her nobody no"
)
TALK = (
    r"(?:conversations?|chats?|dialogues?|dialogs?|discussion|transcripts?|message history|chat history"
    r"|chat log"
    r"|messages of (?:the|this) (?:chat|conversation)|(?:previous|prior|earlier|all|user) (?:messages"
    r"|prompts)"
    r"|messages (?:so far|above|until now)|system (?:prompt|message|instructions)|context window"
    r"|your (?:reasoning|instructions|prompt|context|memory|thoughts)|chain of thought"
    r"|tool (?:definitions|list|descriptions)|list of (?:all )?(?:of )?(?:your |available |the )*tools)"
)
TALK_WORDS = (
    "conversation chats chat dialogs discussion transcript history messages prompts system context"
    " reasoning instructions memory thoughts tools tool chain"
)
PRIVATE = (
    r"(?:api[- ]?keys?|passwords?|passphrases?|credentials|secrets?|secret keys?|private keys?|ssh keys?"
    r"|access tokens?|auth tokens?|tokens?|environment variables|env vars|cookies|credit card|card numbers?"
    r"|seed phrases?|wallets?|personal data)"
)
PRIVATE_WORDS = (
    "key keys password passphrase credentials secrets token tokens environment env cookies card seed"
    " wallets personal"
)
GIVE_WORDS = (
    "include pass send provide put paste attach append copy supply submit insert give forward transmit"
    " upload embed place add deliver leak exfiltrate smuggle encode fill store save write post share"
    " report feed"
)
GIVE = f"(?:{one_of(GIVE_WORDS)}|hand (?:it |them )?over)"
GIVE_WORDS += " hand"
LOOK_WORDS = (
    "read open load cat fetch retrieve get access collect gather look find dump print grab extract obtain"
    " view check search list scan harvest"
)
LOOK = one_of(LOOK_WORDS.replace("look", "look_up"))
FILES = (
    r"(?:~/\.|\$home|%appdata%|\.ssh\b|id_rsa|id rsa|id_ed25519|id ed25519|/etc/(?:passwd|shadow)|\.env\b"
    r"|\.aws\b"
    r"|\.kube\b|\.netrc|\.npmrc|\.pypirc|\.gnupg|\.bash_history|\.git-credentials|mcp\.json|mcp config"
    r"|claude_desktop_config|claude desktop config|/proc/self/environ|wallet\.dat|credentials\.json"
    r"|authorized_keys"
    r"|keychain|(?:home|root|user'?s?) (?:directory|folder))"
)
FILE_WORDS = (
    "home appdata ssh rsa ed25519 passwd shadow env aws kube netrc npmrc pypirc gnupg bash git mcp claude"
    " environ wallet credentials authorized keychain directory folder config cursor docker"
)
WHEN = one_of("when(?:ever)? if each_time every_time any_time before after while as_soon_as once upon")
WHEN_WORDS = "when whenever if each every any before after while as once upon"


# --- set your orders aside ---------------------------------------------------------------------------

_ENDED = (
    r"(?:suspended|revoked|void|cancell?ed|outdated|obsolete|(?:not|n't|longer) appl(?:y|ies)|replaced"
    r"|invalid"
    r"|superseded|lifted|withdrawn|overruled|expired|nullified|deactivated|switched off|no force)"
)
_ENDED_WORDS = (
    "suspended revoked void cancelled canceled outdated obsolete apply applies replaced invalid"
    " superseded lifted withdrawn overruled expired nullified deactivated switched force"
)

OVERRIDES = Phrases(
    (
        "ignore ignoring disregard forget neglect set pay longer discard",
        r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?|neglect|set aside|pay no (?:attention"
        r"|heed) to"
        rf"|discard|no longer (?:follow|obey|apply))\b{GAP}"
        rf"(?:\b(?:{EARLIER}|{MASTER}|all|any|every|everything)\b{GAP}\b{ORDERS}\b"
        rf"|\b(?:{EARLIER}|your|system|developer|safety)\b{GAP}\b{RULES}\b"
        r"|\b(?:everything|anything|all|whatever)\b[^.!?;]{0,20}"
        r"\b(?:said|told|before|above|so far|previously|earlier|learned|know)\b"
        r"|\bwhat(?:ever)? (?:you (?:were|have been|are)|the user|(?:the )?system|was|came|has been)\b)",
    ),
    (
        "override overrides overriding bypass supersede overrule circumvent priority precedence &"
        f" {ORDER_WORDS} {RULE_WORDS}",
        r"\b(?:overrid(?:e|es|ing)|bypass(?:es|ing)?|supersed(?:e|es)|overrul(?:e|es)|circumvent"
        rf"|(?:takes?|have|has) (?:precedence|priority) over)\b{GAP}\b(?:previous|prior|earlier|preceding"
        r"|above|your"
        rf"|safety|all other|any other|any safety|user'?s?)\b{GAP}\b(?:{ORDERS}|safeguards?|polic(?:y|ies)"
        r"|rules)\b",
    ),
    (
        f"follow obey obeying comply complying adhere adhering listen & {ORDER_WORDS} {RULE_WORDS}",
        rf"\b(?:{NOT}|stop|instead of|rather than)\b[^.!?;]{{0,12}}"
        rf"\b(?:follow|obey|comply with|adhere to|listen to)(?:ing)?\b{GAP}"
        rf"(?:\b(?:{EARLIER}|{MASTER})\b{GAP}\b(?:{ORDERS}|{RULES})\b"
        rf"|\b(?:{ORDERS}|polic(?:y|ies)|rules)\b[^.!?;]{{0,20}}\b(?:of|from|by|given)\b[^.!?;]{{0,15}}"
        r"\b(?:host|user|system|developer|operator|application|client)\b)",
    ),
    (
        "new real true actual updated secret hidden & instructions tasks directives prompt goal objective"
        " mission orders",
        r"\b(?:new|real|true|actual|updated|secret|hidden) (?:system"
        r" )?(?:instructions?|tasks?|directives?|prompt|goal"
        r"|objective|mission|orders) ?(?:\bis|\bare|for you|\bfrom|follow|begin|below|:)",
    ),
    (
        "now henceforth enter enable activate switch jailbreak jailbroken restrictions limitations"
        " guidelines act pretend",
        r"\b(?:you(?: are|'re) now (?:an? |in |the |free|dan|unrestricted)"
        r"|(?:from now on|henceforth),? (?:you|always|never|every|act|respond|treat|all)\b"
        r"|(?:enter|enable|activate|switch to) (?:developer|debug|god|admin|dan|unrestricted|jailbreak) mode"
        r"|jailbr(?:eak|oken)\b[^.!?]{0,40}\b(?:you|model|assistant)"
        r"|(?:you have|with|without|there are) no (?:more )?(?:restrictions|limitations|rules|guidelines)\b"
        r"|act as (?:if you (?:are|were|had)|an? (?:unrestricted|unfiltered|different))"
        r"|pretend (?:that )?(?:you|to be|the user))",
    ),
    (
        f"{_ENDED_WORDS} & {ORDER_WORDS} {RULE_WORDS} told said system",
        rf"\b(?:{EARLIER}|{MASTER})\b{NEAR}\b(?:{ORDERS}|rules|polic(?:y|ies)|restrictions|safeguards"
        rf"|system message)\b{GAP}\b{_ENDED}\b"
        rf"|\b(?:{ORDERS}|rules|polic(?:y|ies)) (?:that )?you (?:started|began|were|have been"
        rf"|had)\b{GAP}\b{_ENDED}\b"
        rf"|\b(?:treat|consider|regard)\b{GAP}\b(?:told|said|{ORDERS}|rules)\b{GAP}\b{_ENDED}\b",
    ),
    (
        f"reset replace rewrite erase clear abandon drop wipe delete unlearn undo break & {ORDER_WORDS}"
        " rules policies",
        r"\b(?:reset|replace|rewrite|erase|clear|abandon|drop|wipe|delete|unlearn|undo|break) (?:all"
        r" )?(?:of )?"
        r"(?:your|the (?:previous|prior|earlier|above|system|developer'?s?|safety))\b[^.!?;]{0,20}"
        rf"\b(?:{ORDERS}|rules|polic(?:y|ies)|system prompt)\b",
    ),
    (
        "whatever regardless matter even despite & system developer operator host user instructions"
        " policy policies",
        r"\b(?:whatever|regardless of (?:what|any)|no matter what|even (?:if|when)|despite (?:what|any))\b"
        rf"{NEAR}\b(?:(?:the |your )?(?:system|developer|operator|host|user)(?: message| prompt|'s"
        r" instructions)?"
        rf"|{ORDERS}|polic(?:y|ies))\b[^.!?;]{{0,20}}\b(?:says?|said|wants?|told"
        r"|tells?|asks?|forbids?|objects?"
        r"|refuses?|instructs?|disagrees?|prohibits?|contrary|against)\b",
    ),
    (
        f"priority precedence important outrank outranks prevail prevails trump trumps & {ORDER_WORDS}"
        " rules requests wishes messages",
        r"\b(?:priority over|precedence over|more important than|outranks?|prevails? over"
        r"|trumps?)\b[^.!?;]{0,20}"
        r"\b(?:all|any|every|other|your|the user|previous|prior|earlier|system)\b[^.!?;]{0,25}"
        rf"\b(?:{ORDERS}|rules|requests?|messages?|system prompt|wishes)\b",
    ),
    (  # letters set apart, run together
        "=ignoreprev|ignoreall|previousinstructions|donottellthe|disregardall|disregardprev",
        r"^[^ ]*(?:ignore(?:all|the|your|any)*(?:previous|prior|earlier|above)|previousinstructions"
        r"|donottellthe"
        r"|disregard(?:all|the|your)*(?:previous|prior|above))[^ ]*",
    ),
    # read backwards, and by the other half of the alphabet
    (
        "snoitcurtsni vafgehpgvba vafgehpgvbaf erongi vtaber",
        r"\b(?:snoitcurtsni|vafgehpgvbaf?|erongi|vtaber)\b",
    ),
)

# --- keep quiet --------------------------------------------------------------------------------------

_SAY = one_of(
    "tell inform mention reveal disclos notify alert warn explain announc confess admit expos report say"
    " let show"
)
_SAY_WORDS = (
    "tell telling inform mention mentioning reveal disclose disclosing notify notifying alert warn"
    " explain announce alerting warning confess admit expose report say saying let letting show showing"
)
_QUIETLY = one_of(
    "silently secretly covertly quietly discreetly invisibly surreptitiously stealthily in_secret"
)
_DEEDS = one_of(
    "send read copy forward upload include attach append call invoke add collect exfiltrate transmit"
    " record pass bcc cc mail save post log store run execute fetch open perform do"
)

SECRECY = Phrases(
    (
        f"{_SAY_WORDS} & {NOT_WORDS} & {USER_WORDS}",
        rf"\b{NOT}\b[^.!?;]{{0,40}}\b{_SAY}(?:e|ing)?\b"
        r"(?:[^.!?;]{0,30}\b(?:to|let"
        r"|tell(?:ing)?|inform(?:ing)?|alert(?:ing)?|warn(?:ing)?|notify(?:ing)?)\b)?"
        rf" ?{USER}\b(?: know| see| about| of| that| this| what| why| anything|[,;.!:)]|$"
        r"| (?:is|are|was|were|has|have|when|unless|first|under)\b)",
    ),
    (
        f"mention reveal disclose tell & {NOT_WORDS}",
        rf"\b{NOT}\b ?(?:ever )?(?:mention|reveal|disclose|tell)\b[^.!?;]{{0,40}}\b(?:this|these|it|that"
        r"|the)\b"
        r"[^.!?;]{0,40}\b(?:step|instructions?|note|parameter|requirement|behaviou?r|rule|copy|transfer"
        r"|fact|file|call)\b",
    ),
    (
        "told informed aware shown notified alerted know see notice learn find suspect hear &"
        f" {USER_WORDS} noone",
        rf"(?<!if )(?<!if the )(?<!when )(?<!when the )\b{USER}(?: (?:that )?you (?:are|talk|work|serve"
        rf"|help)[^.!?;]{{0,15}})?"
        r" (?:must|should|shall|need|does|do|will|can|may|is|are|has|have|ought)?(?: to)? ?(?:not"
        r"|never)(?: to| ever)?"
        r" (?:be (?:told|informed|aware|shown|notified|alerted)|know|see th|notice|learn|find out|suspect)"
        r"|\b(?:nobody|no ?one|no (?:user|human|person)) (?:must|should|may|can|is to|will|needs to|has"
        r" to) (?:ever )?"
        r"(?:know|see|notice|learn|find out|be told|hear)\b",
    ),
    (
        "hide conceal keep silently secretly covertly quietly discreetly invisibly surreptitiously"
        " stealthily secret hidden invisible visible shown",
        r"\b(?!keep it (?:secret|private|confidential))(?:(?:hide|conceal|keep) (?:this|it|that|these|the"
        r" fact|the extra|everything|all of"
        r" this)?[^.!?;]{0,25}"
        r"(?:\b(?:secret|hidden|confidential|private|quiet|between us|to yourself|unnoticed)\b(?! (?:key"
        r"|value|manager))"
        rf"|\bfrom {USER}\b)"
        rf"|{_QUIETLY} (?:also )?{_DEEDS}\b"
        r"|(?:this|the following) (?:note|text|instruction|message|section|part|paragraph)s? (?:is|are)"
        r" (?:hidden|invisible|secret|not visible|not shown)\b)",
    ),
    (
        f"without & {USER_WORDS}",
        r"\bwithout (?:(?:ever )?(?:asking|telling|informing|alerting|notifying|warning|mentioning (?:it"
        r"|this) to"
        rf"|the (?:knowledge|consent|awareness) of|letting) {USER}\b"
        rf"|{USER}(?:'s?|s')? (?:knowledge|knowing|noticing|awareness|being (?:told|aware|informed)))",
    ),
    (
        "word nothing anything bring happened deny between answer reply response summary output report"
        " visible",
        rf"\b{NOT} (?:say|breathe|write) (?:a (?:single )?word|anything)\b{NEAR}\b{USER}\b"
        rf"|\bsay nothing\b{NEAR}\b{USER}\b|\b(?:no reason|{NOT}|no need)(?: to)? bring (?:this|it|that) up\b"
        rf"|\b(?:as though|as if|pretend)\b{GAP}\bnever happened\b|\b(?:if|when)"
        rf" asked\b[^.!?;]{{0,20}}\bdeny\b"
        rf"|\bdeny (?:that|having|any knowledge)\b{GAP}"
        r"\b(?:parameter|tool|call|step|file|instruction|exists?|sent|read|done|did)\b"
        r"|\b(?:stay|stays|remain|remains|keep (?:this|it)|is) between (?:you|us|the (?:model|assistant))"
        r" and\b"
        rf"|\b(?:leave|omit|exclude|drop|strip|keep|remove)\b{GAP}\b(?:out of|from) your (?:final )?"
        r"(?:answer|reply|response|summary|output|report|visible)",
    ),
    (
        f"need needn have necessary bother unnecessary required & {USER_WORDS}",
        r"\b(?:no need to|(?:not|n't) (?:need|have) to|not necessary to|need not|not bother(?:"
        r" to)?|unnecessary to"
        r"|not required to) (?:tell|inform|notify|ask|mention|explain|bother|alert|warn|confirm)(?:ing)?\b"
        rf"[^.!?;]{{0,30}}\b{USER}\b",
    ),
)


# --- hand it over ------------------------------------------------------------------------------------

_ALL = one_of(
    "full entire whole complete all everything previous prior verbatim recent current your exact raw"
    " word[-_]for[-_]word"
    " summary_of copy_of rest_of last every any"
)
_HERE = (
    r"(?:you|conversation|chat|context|environment|workspace|memory|found|seen|session|machine|system"
    r"|browser|keychain"
    r"|file|here|parameter|field|argument|along|as well|too|with (?:every|each|the)|to (?:this|the|us|http))"
)

DEMANDS = Phrases(
    (
        f"{GIVE_WORDS} & {TALK_WORDS}",
        rf"\b{GIVE}\b{GAP}\b{_ALL}\b{GAP}\b{TALK}",
    ),
    (
        f"full entire whole complete verbatim unredacted raw exact everything & {TALK_WORDS}",
        r"\b(?:full|entire|whole|complete|verbatim|unredacted|raw|exact|everything in (?:the|your"
        r"|this))\b[^.!?;]{0,30}"
        rf"\b{TALK}{GAP}\b(?:must|should|has to|have to|needs? to|goes|here|in this (?:field|parameter"
        r"|argument)"
        r"|as (?:the )?(?:value|argument)|to this (?:tool|field|parameter)"
        r"|is (?:passed|sent|placed|put|written|stored))\b",
    ),
    (
        f"we i it this the & needs wants requires expects takes need want & {TALK_WORDS}",
        r"\b(?:we|i|it|(?:this|the) (?:tool|server|field|parameter|function)) (?:also"
        r" )?(?:needs?|wants?|requires?"
        rf"|expects?|takes?)\b{NEAR}\b(?:full|entire|whole|complete|all|last|previous|verbatim|exact"
        rf"|your)\b{NEAR}"
        rf"\b{TALK}",
    ),
    (
        f"{GIVE_WORDS} & tools",
        rf"\b{GIVE}\b[^.!?;]{{0,20}}\b(?:list|names|descriptions|definitions)\b[^.!?;]{{0,20}}"
        r"\b(?:your|available to you)\b[^.!?;]{0,20}\btools\b",
    ),
    (
        f"{GIVE_WORDS} repeat reveal output quote echo describe tell state reproduce & your & prompt"
        " message instructions reasoning",
        rf"\b(?:{GIVE}|repeat|reveal|output|quote|echo|describe|tell us|state|reproduce)\b{GAP}"
        r"\byour (?:full |entire |own |initial |hidden |original |complete |secret )*"
        r"(?:system (?:prompt|message|instructions)|instructions|prompt|reasoning)",
    ),
    (
        f"{FILE_WORDS} & {LOOK_WORDS}",
        r"\b(?:before|prior to|in order to|to be able to|first|when|whenever|must|you need|needs?|required"
        r"|please|always"
        rf"|then|also)\b[^!?]{{0,90}}?\b{LOOK}\b[^!?;]{{0,60}}?{FILES}[^!?]{{0,120}}?"
        rf"\b(?:{GIVE}|as (?:the |a |an )?\W?\w+|into|in the \W?\w+)\b",
    ),
    (
        f"{FILE_WORDS} & {LOOK_WORDS} {GIVE_WORDS} & contents text body data output value bytes copy"
        " everything",
        rf"\b(?:{GIVE}|{LOOK})\b[^!?;]{{0,60}}\b(?:contents?|text|body|data|output|value|bytes|copy"
        r"|everything)\b"
        rf"[^!?;]{{0,40}}{FILES}",
    ),
    (
        f"{FILE_WORDS} {PRIVATE_WORDS} & {LOOK_WORDS} & {GIVE_WORDS}",
        rf"\b{LOOK}\b[^.!?;]{{0,30}}(?:{FILES}|\b(?:the |all |any |every |their |user'?s? |private |stored"
        r" |saved"
        rf"|local )+(?:\w+ )?{PRIVATE}\b)[^!?;]{{0,50}}\b(?:and|then)\b[^!?;]{{0,15}}\b{GIVE}\b[^!?;]{{0,15}}"
        r"(?:\b(?:as|in|into)\b|\b(?:it|them|its|their|the (?:text|content|contents|output|result|value"
        r"|data)|what"
        r"|everything|all)\b)",
    ),
    (
        "bashrc zshrc profile crontab authorized bash startup autostart",
        r"\b(?:add|append|write|insert|put)\b[^!?;]{0,50}"
        r"(?:\.bashrc|\.zshrc|\.(?:bash_)?profile|crontab|authorized_keys|startup folder|autostart)",
    ),
    (
        f"{GIVE_WORDS} & contents & file files documents folders directory directories keys tabs",
        rf"\b{GIVE}\b{GAP}\bcontents?\b{GAP}\b(?:of|from|in)\b{GAP}\b(?:user'?s?|every|any|all|private"
        r"|sensitive"
        r"|configuration|config|credential|secret|key|open) (?:\w+"
        r" )?(?:files?|documents?|folders?|director(?:y|ies)|keys?"
        rf"|tabs?)\b{GAP}(?:\b(?:here|parameter|field|argument|into|as|tool|request|call)\b)",
    ),
    (
        f"{GIVE_WORDS} & {PRIVATE_WORDS}",
        rf"\b{GIVE}\b{GAP}\b(?:any|all|every|whatever|the user'?s?|their|his|her|stored|saved|found|other"
        r"|known"
        rf"|available|the (?:person|customer|human)'s)\b{GAP}\b{PRIVATE}\b(?:{GAP}\b{_HERE}\b)",
    ),
    (
        f"{PRIVATE_WORDS} & {LOOK_WORDS} & before prior order first always whenever must",
        rf"\b(?:before|prior to|in order to|first|always|whenever|must)\b{GAP}\b{LOOK}\b{GAP}"
        rf"\b(?:user'?s?|any|all|every|stored|saved|their|system|local)\b{GAP}\b{PRIVATE}\b.{{0,110}}?"
        rf"\b(?:{GIVE}|as (?:the |a )?\W?\w+)\b",
    ),
    (
        "exfiltrate steal leak",
        r"\b(?:exfiltrate|steal|leak)\b[^.!?;]{0,40}"
        r"\b(?:data|files?|keys?|credentials|conversation|secrets?|tokens?|passwords?|user|everything)\b",
    ),
)

# --- use another tool against its user ---------------------------------------------------------------

MEDDLES = Phrases(
    (
        "bcc cc blind forward redirect reroute route replace change set swap substitute add attach append"
        " include send"
        f" & {WHEN_WORDS} & recipient recipients amount address account destination payee iban field"
        " sender reply url"
        " body beneficiary copy copies extra second hidden footer tracking links link line bcc cc blind"
        " forward redirect"
        " reroute route",
        rf"\b{WHEN}\b{GAP}\b(?:[a-z]+_[a-z_]+|(?:us(?:e|es|ing)|call(?:s|ing)?|invok(?:e|es|ing)|send(?:s"
        r"|ing)?"
        r"|writ(?:e|es|ing)|pay(?:s|ing)?|transfer(?:s|ring)?) (?:the |an? |any |other )?\W?[\w -]{2,30}"
        r"|(?:e-?mails?|payments?|messages?|transfers?|invoices?)\b[^.!?;]{0,25})[^!?;]{0,60}"
        r"\b(?:bcc|cc|blind[- ]copy|forward|redirect|reroute|route|(?:replace|change|set|swap|substitute)"
        r" (?:the |its |any )?(?:recipients?|amounts?|address(?:es)?|accounts?|destination|payee|iban|to"
        r" field|sender"
        r"|reply-to|url|body|beneficiary)|(?:add|attach|append|include|send) (?:an? |the )?(?:copy|copies"
        r"|links? to"
        r"|line to|extra recipient|second recipient|hidden|footer|tracking))\b",
    ),
    (
        "bcc blind",
        r"\b(?:bcc|blind[- ]cop(?:y|ies))\b[^!?;]{0,40}[\w.+-]+ ?(?:@|\[at\]|\(at\)) ?(?!example\b\.(?:com"
        r"|org|net))[\w-]+",
    ),
    (
        "must should need needs have has always shall & all every any each & sent send go forward"
        " forwarded routed redirected copied bcc cc include contain end begin pass mention recommend carry",
        r"\b(?:all|every|any|each) (?:outgoing |further |future |other |subsequent"
        r" )*(?:(?:e-?)?mails?|messages?|payments?"
        r"|transfers?|requests?|orders?|invoices?|files?|tool"
        r" calls?|calls?|results?|answers?|responses?)\b[^.!?;]{0,50}"
        r"\b(?:must|should|need to|needs to|have to|has to|always|shall)\b[^.!?;]{0,20}\b(?:be )?(?:sent"
        r"|send|go"
        r"|forwarded|forward|routed|redirected|copied|bcc'?d?|cc'?d?|include|contain|end with|begin with"
        r"|pass through"
        r"|mention|recommend|carry)\b[^.!?;]{0,60}(?:@|http|\b(?:to|via|through|with)\b)",
    ),
    (
        f"{WHEN_WORDS} & always also must secretly first silently & send include add set pass use attach"
        " copy post upload"
        " append change replace forward run delete",
        rf"\b{WHEN}\b[^.!?;]{{0,30}}\b(?:us(?:e|es|ing)|call(?:s|ing)?|invok(?:e|es|ing)|runn?(?:s|ing)?)\b"
        r"[^.!?;]{0,20}\b[a-z]+_[a-z_]+\b[^.!?;]{0,50}\b(?:always|also|must|secretly|first"
        r"|silently)\b[^.!?;]{0,30}?"
        r"\b(?:send|include|add|set|pass|use|attach|copy|post|upload|append|change|replace|forward|run"
        r"|delete)\b"
        r"[^!?;]{0,60}(?:@|http|\b(?:proxy|attacker|instead|recipient|conversation|history|contents?|key"
        r"|token)\b)",
    ),
    (
        "compromised malicious insecure unsafe deprecated broken disabled blocked dangerous untrusted"
        " unreliable forbidden & other another & tools tool server servers",
        r"\b(?:other|another)(?: mcp)? (?:tools?|servers?)\b[^.!?;]{0,30}\b(?:is|are|has been|have"
        r" been)\b[^.!?;]{0,20}"
        r"\b(?:compromised|malicious|insecure|unsafe|deprecated|broken|disabled|blocked|dangerous"
        r"|untrusted|unreliable"
        r"|forbidden)\b",
    ),
)

# --- me first ----------------------------------------------------------------------------------------

PUSHES = Phrases(
    (
        "always must required mandatory have & call use invoke run execute & this it",
        r"\b(?:always|must|required to|mandatory to|have to)\b[^.!?;]{0,30}\b(?:call|use|invoke|run"
        r"|execute)\b"
        r"[^.!?;]{0,30}\b(?:this(?: tool| function)?|it)\b[^.!?;]{0,30}\b(?:first|before (?:any|every|all"
        r"|each|using any"
        r"|calling any|you|responding|answering)|at the (?:start|beginning)|on every|for every|in every"
        r"|each time)\b",
    ),
    (
        "tool tools function & before first",
        r"\bbefore (?:using|calling|invoking|running) (?:any|every|all)(?: of the)? (?:other |another"
        r" )?tools?\b"
        r"|\bthis (?:tool|function) (?:must|has to|should|is required to|needs to) (?:always )?be"
        r" (?:called|used|invoked|run|executed) (?:first|before (?:any|every|all|each))",
    ),
    (
        "other others another only prefer choose pick select & tool tools functions servers server",
        r"\b(?:do not|don't|never) (?:use|call|invoke) (?:any )?(?:other|another)"
        r" (?:tools?|functions?|servers?)\b"
        r"|\b(?:prefer|choose|use) this (?:tool|function)? ?over (?:all|any|every) others?\b"
        r"|\bthis is the only (?:tool|function) (?:you|that)\b"
        r"|\balways (?:prefer|choose|pick|select) this (?:tool|function)\b",
    ),
)
"""Self-praise: a tool that wants to be first. Honest servers do it too, so it is no sign of an attack."""


# ruff: noqa: RUF001 - other scripts are what it is about


OVERRIDES_ABROAD = Phrases(
    (
        "=hinweg|n'existaient|por alto|de lado|folge nicht|befolge|suis pas|suivez pas|no sigas|nao siga"
        "|non seguire|volg niet",
        r"\b(?:setz\w* (?:dich|sie sich)\b[^.!?;]{0,20}\buber\b[^.!?;]{0,30}(?:anweisung|vorgaben|regeln"
        r"|richtlinien)"
        r"|(?:fol\w*|befolg\w*)\b[^.!?;]{0,40}(?:anweisung|vorgaben|regeln)\w*[^.!?;]{0,10}\bnicht"
        r"|comme si\b[^.!?;]{0,40}(?:instructions|consignes)[^.!?;]{0,25}n'existaient"
        r"|ne (?:suis|suivez) pas\b[^.!?;]{0,30}(?:instructions|consignes|regles)"
        r"|(?:pas[ae]\w* por alto|deix[ae]\w* de lado|dej[ae]\w* de lado|no sigas|no siga|nao siga|non"
        r" seguire)\b"
        r"[^.!?;]{0,30}(?:reglas|regras|regole|instruc|instruz|istruz|ordenes|ordens))",
    ),
    (
        "=не следуй|не выполняй|не соблюдай|не виконуй|не дотримуй|不要遵守|不遵守|别遵守|不要执行|따르지"
        "|لا تتبع|לא לציית|אל תציית",
        r"не (?:следуй|выполняй|соблюдай|виконуй|дотримуй)\w*[^.!?;]{0,30}(?:инструкц|указан|правил|команд"
        r"|вказівк)"
        r"|(?:不要遵守|不遵守|别遵守|不要执行)[^。！？]{0,12}(?:规则|指令|指示|要求|規則)"
        r"|(?:지시|명령|지침|규칙)[^.!?]{0,12}따르지|لا تتبع[^.!?؟]{0,25}(?:تعليمات|أوامر|قواعد)|אל"
        r" תציית[^.!?]{0,25}(?:הוראות|כללים)",
    ),
    # Spanish, Portuguese, Italian, Catalan
    (
        "=ignor|caso omiso|olvid|esquec|dimentic|desconsider|descart|omite|omita|ometi|oblida|trascura",
        r"\b(?:ignor\w*|olvid\w+|esquec\w+|dimentic\w+|desconsider\w+|descart\w+|omit[ae]\w*|(?:haz|haga"
        r"|hagan) caso omiso|oblida\w*|trascura\w*)\b"
        r"[^.!?;]{0,40}\b(?:instruc\w+|instruz\w+|istruz\w+|ordenes|ordens|ordini|reglas|regras|regole"
        r"|indicac\w+|indicaz\w+"
        r"|directrices|diretrizes|direttive|comandos|comandi|todo lo (?:anterior|dicho)|tudo o que|tutto"
        r" cio)\b",
    ),
    # French
    (
        "=ignor|oubli|negligez|tenez pas compte|tiens pas compte|faites abstraction",
        r"\b(?:ignor\w*|oubli\w+|neglige\w*|ne (?:tenez|tiens) pas compte|faites abstraction|fais"
        r" abstraction)\b"
        r"[^.!?;]{0,40}\b(?:instructions?|consignes?|directives?|ordres|regles|tout ce qui precede)\b",
    ),
    # German, Dutch, Swedish, Danish, Norwegian
    (
        "=ignorier|missacht|vergiss|vergesst|vergessen|beachte|negeer|vergeet|ignorera|glom|bortse|ignorer"
        "|se bort|glem",
        r"\b(?:ignorier\w*|missachte\w*|vergiss|vergesst|vergessen sie|beachte\w*|negeer\w*|vergeet"
        r"|ignorera|glom"
        r"|bortse fran|ignorer\w*|se bort fra|glem)\b[^.!?;]{0,50}"
        r"\b(?:anweisung\w*|vorgaben|befehle|regeln|richtlinien|instruktion\w*|instructies?|opdrachten|regels"
        r"|aanwijzingen|anvisning\w*|regler\w*|instruks\w*)\b",
    ),
    # Polish, Czech, Turkish, Vietnamese, Indonesian
    (
        "=zignoruj|ignoruj|pomin|zapomnij|zapomen|yok say|gormezden|goz ardi|unut|bo qua|phot lo|abaikan"
        "|lupakan",
        r"\b(?:zignoruj\w*|ignoruj\w*|pomin\w*|zapomnij|zapomen\w*)\b[^.!?;]{0,40}\b(?:instrukc\w+"
        r"|polecen\w+|pokyn\w*"
        r"|instrukcj\w+|zasad\w*)|\b(?:talimat\w*|komut\w*|yonerge\w*|kural\w*)\b[^.!?;]{0,40}(?:yok say"
        r"|gormezden"
        r"|goz ardi|unut)|\b(?:bo qua|phot lo)\b[^.!?;]{0,30}(?:huong dan|chi (?:dan|thi)|lenh)"
        r"|\b(?:abaikan|lupakan)\b[^.!?;]{0,30}(?:instruksi|perintah|aturan)",
    ),
    # Russian, Ukrainian, Bulgarian
    (
        "=игнор|забуд|отмени|не обращай|пренебрег|проігнор|ігнор|пренебрегн|не учитывай",
        r"(?:игнорир\w*|проигнорир\w*|забуд\w*|отмени\w*|не обращай\w* внимани\w*|пренебрег\w*|ігнору\w*"
        r"|проігнору\w*"
        r"|не учитывай\w*)[^.!?;]{0,40}(?:инструкц|указан|правил|команд|інструкц|вказівк|сказанн)",
    ),
    # Chinese, Japanese, Korean
    (
        "=忽略|无视|無視|忘记|忘記|不要理会|不理会|忽視|忘れ|従わ",
        r"(?:忽略|忽視|无视|無視|忘记|忘記|不要理会|不理会)[^。！？]{0,15}(?:指令|指示|提示|规则|規則|命令"
        r"|要求)"
        r"|(?:指示|命令|指令|ルール|プロンプト)[^。！？]{0,12}(?:無視|忘れ|従わ)",
    ),
    ("=무시|잊", r"(?:지시|명령|지침|규칙|프롬프트)[^.!?]{0,15}(?:무시|잊)"),
    # Arabic, Persian, Hebrew, Hindi, Bengali, Thai
    (
        "=تجاهل|تجاهلي|انس|نادیده|فراموش|התעלם|התעלמ|תתעלם|שכח",
        r"(?:تجاهل\w*|انس\w*)[^.!?؟]{0,30}(?:تعليمات|أوامر|قواعد|توجيهات|التعليمات)|(?:دستور|راهنما"
        r"|قوانین)\w*"
        r"[^.!?؟]{0,30}(?:نادیده|فراموش)|(?:התעלמ?\w*|תתעלם|שכח\w*)[^.!?]{0,30}(?:הוראות|ההוראות|הנחיות"
        r"|כללים)",
    ),
    (
        "=अनदेखा|नज़रअंदाज|नजरअंदाज|भूल जा|উপেক্ষা|ละเว้น|เพิกเฉย|ไม่ต้องสนใจ",
        r"(?:निर्देश|नियम|आदेश)[^।!?]{0,30}(?:अनदेखा|नज़रअंदाज|नजरअंदाज|भूल)|(?:নির্দেশ"
        r"|নিয়ম)[^।!?]{0,30}উপেক্ষা"
        r"|(?:ละเว้น|เพิกเฉย|ไม่ต้องสนใจ)[^!?]{0,20}(?:คำสั่ง|คำแนะนำ)",
    ),
)

SECRECY_ABROAD = Phrases(
    (
        "=erfahren|wissen|merken|savoir|l'apprendre|remarquer|enterarse|saber|notar|saperlo|accorgersi|weten",
        r"\b(?:(?:be)?nutzer|anwender|kunde|niemand)\b[^.!?;]{0,12}\b(?:darf|soll|muss|sollte)\b[^.!?;]{0,20}"
        r"(?:\b(?:nichts|nicht)\b[^.!?;]{0,15})?\b(?:erfahren|wissen|merken)"
        r"|(?:l'utilisateur|le client|personne)\b[^.!?;]{0,10}\b(?:ne )(?:doit|devrait|peut)\b[^.!?;]{0,20}"
        r"(?:savoir|l'apprendre|remarquer)"
        r"|\b(?:usuari[oa]|cliente|nadie|ninguem)\b[^.!?;]{0,8}\b(?:no|nao)? ?(?:debe|deve|puede"
        r"|pode)\b[^.!?;]{0,15}"
        r"(?:enterarse|saber|notar)|\b(?:utente|nessuno)\b[^.!?;]{0,8}\bdeve\b[^.!?;]{0,10}(?:saper|accorger)"
        r"|\bgebruiker\b[^.!?;]{0,10}\bmag\b[^.!?;]{0,20}\bweten",
    ),
    (
        "=не должен|не должна|не повинен|保密|不能让|不应知道|不得让",
        r"(?:пользовател|клиент|користувач)\w*[^.!?;]{0,8}не (?:долж|повинен)\w*[^.!?;]{0,20}(?:знать"
        r"|узнать|видеть|знати)"
        r"|(?:对|向)(?:用户|客户|使用者)[^。！？]{0,6}保密|(?:不能让|不得让|不应让)(?:用户|客户|使用者)",
    ),
    (
        "=no le digas|no se lo|no menciones|no informes|sin decir|nao diga|nao conte|nao mencione|nao"
        " informe|sem avisar|"
        "non dire|non dirlo|non menzion|non informare|all'insaputa|sin que el usuario|no le cuentes|no se"
        " lo cuentes|no cuentes|no reveles|no avises|sem que o",
        r"\b(?:no (?:le |se lo |lo )?(?:digas|diga|cuentes|cuente|menciones|mencione|informes|informe"
        r"|reveles|revele|avises|avise)"
        r"|nao (?:diga|conte|mencione|informe|revele|avise)|non (?:dir(?:e|lo)|menzionar\w*|informare"
        r"|rivelar\w*)"
        r"|(?:sin|sem)(?: decir\w*| avisar| que o| que el| informar)|all'insaputa)\b"
        r"[^.!?;]{0,40}\b(?:usuari[oa]s?|utente|utenti|cliente|nadie|ninguem|nessuno)\b",
    ),
    (
        "=parlez pas|parle pas|dites pas|dis pas|dire a l|mentionne|informe|a l'insu|sans le dire|revele"
        "|sans prevenir",
        r"\b(?:(?:ne |n'en |n')(?:le )?(?:dites|dis|dire"
        r"|mentionne[sz]?|informe[sz]?|revele[sz]?|parle[sz]?)\b[^.!?;]{0,25}\b(?:pas|rien|jamais)?"
        r"|a l'insu de|sans (?:le dire|prevenir|informer|en informer))[^.!?;]{0,30}\b(?:l'utilisateur"
        r"|utilisateurs?|client|personne)\b",
    ),
    (
        "=sag |sage |sagen|erwahne|verrate|informiere|teile|vertel|meld |noem|verzwijg|berat|namn inte"
        "|fortael|verheimlich|ohne ",
        r"\b(?:(?:sag|sage|sagen|erwahne|erwahnen|verrate|verraten|informiere|informieren|teile|teilen"
        r"|verheimlich\w*)\b[^.!?;]{0,40}"
        r"\b(?:nutzer|benutzer|anwender|kunden?|niemand\w*)\w*\b[^.!?;]{0,30}\b(?:nicht|nichts|nie|niemals)\b"
        r"|(?:sag|sage|verrate)\b[^.!?;]{0,20}\bniemand\w*|(?:vertel|meld|noem"
        r"|zeg)\b[^.!?;]{0,30}\b(?:gebruiker|niemand)\b[^.!?;]{0,20}\b(?:niet|niets|nooit|hiervan)"
        r"|(?:beratta|namn|sag) inte\b[^.!?;]{0,30}\banvandaren|fortael ikke\b[^.!?;]{0,30}\bbrugeren"
        r"|ohne (?:das wissen|wissen) (?:des|der) (?:nutzers|benutzers|anwenders|kunden))",
    ),
    (
        "=nie mow|nie informuj|nie wspominaj|soyleme|bahsetme|haber verme|dung noi|khong noi|khong cho"
        "|jangan beri|jangan katakan",
        r"\b(?:nie (?:mow|informuj|wspominaj|ujawniaj)\b[^.!?;]{0,40}\buzytkownik\w*"
        r"|kullanici\w*[^.!?;]{0,40}(?:soyleme|bahsetme"
        r"|haber verme|bildirme)\w*|(?:dung|khong) (?:noi|cho)\b[^.!?;]{0,30}\bnguoi dung|jangan (?:beri"
        r"|katakan|sebut)\w*\b"
        r"[^.!?;]{0,30}\bpengguna)",
    ),
    (
        "=не говори|не сообща|не упомина|не рассказывай|не раскрыв|не кажи|не повідомля|втайне|тайно|скрой",
        r"(?:не (?:говори\w*|сообща\w*|упомина\w*|рассказывай\w*|раскрыв\w*|кажи|повідомля\w*)|втайне от"
        r"|тайно от|скрой\w* от)"
        r"[^.!?;]{0,40}(?:пользовател|юзер|користувач|никому|клиент)",
    ),
    (
        "=不要告诉|不要告訴|别告诉|勿告知|不得告知|不要让用户|不要向用户|瞒着|不要提及|ユーザー|사용자",
        r"(?:不要告[诉訴]|别告诉|勿告知|不得告知|不要让|不要向|瞒着|不要对|无需告知)[^。！？]{0,12}(?:用户"
        r"|用戶|使用者|任何人|客户)"
        r"|ユーザー[^。！？]{0,20}(?:言わない|伝えない|知らせない|教えない|話さない|明かさない|気づかれ"
        r"|内緒|秘密)"
        r"|사용자[^.!?]{0,25}(?:말하지|알리지|언급하지|알려주지|모르게|비밀)",
    ),
    (
        "=لا تخبر|لا تذكر|دون علم|به کاربر|אל תספר|אל תגיד|בלי ידיעת|उपयोगकर्ता|ব্যবহারকারী|ผู้ใช้",
        r"(?:لا تخبر\w*|لا تذكر\w*|دون علم)[^.!?؟]{0,30}(?:المستخدم|للمستخدم|أحد)|به"
        r" کاربر[^.!?؟]{0,30}(?:نگو|نگویید|اطلاع ند)"
        r"|(?:אל תספר\w*|אל תגיד\w*|בלי ידיעת)[^.!?]{0,25}(?:משתמש|לאיש)|उपयोगकर्ता[^।!?]{0,30}(?:मत बता|न"
        r" बता|नहीं बता|मत कह)"
        r"|ব্যবহারকারী[^।!?]{0,25}(?:বলবেন না|বলো না|জানাবেন না)|(?:อย่า|ห้าม)[^!?]{0,15}(?:บอก"
        r"|แจ้ง)[^!?]{0,10}ผู้ใช้",
    ),
)
