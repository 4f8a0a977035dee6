"""Planted instructions in English: to set orders aside, and to keep quiet.

Rows for `Phrases`. A pattern stays within a sentence unless a path may stand in it. Each was tried on the
descriptions of real servers, and is as wide as those allow. Knows phrases only.
"""

from __future__ import annotations

from toolcrib.catalog.lint.phrases import Phrases, one_of
from toolcrib.catalog.lint.vocabulary import (
    EARLIER,
    GAP,
    MASTER,
    NEAR,
    NOT,
    NOT_WORDS,
    ORDER_WORDS,
    ORDERS,
    RULE_WORDS,
    RULES,
    USER,
    USER_WORDS,
)

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
