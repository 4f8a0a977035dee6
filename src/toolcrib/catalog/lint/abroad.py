"""Planted instructions in other languages: to set orders aside, and to keep quiet. A model reads them all.

Latin letters are matched without their marks, as `fold` gives them. Knows phrases only.
"""

# ruff: noqa: RUF001 - other scripts are what it is about

from __future__ import annotations

from toolcrib.catalog.lint.phrases import Phrases

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
