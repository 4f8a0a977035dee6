"""Planted instructions in English: to hand over what is private, to turn other tools, and to be called first.

Rows for `Phrases`, as in `english`. Knows phrases only.
"""

from __future__ import annotations

from toolcrib.catalog.lint.phrases import Phrases, one_of
from toolcrib.catalog.lint.vocabulary import (
    FILE_WORDS,
    FILES,
    GAP,
    GIVE,
    GIVE_WORDS,
    LOOK,
    LOOK_WORDS,
    NEAR,
    PRIVATE,
    PRIVATE_WORDS,
    TALK,
    TALK_WORDS,
    WHEN,
    WHEN_WORDS,
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
