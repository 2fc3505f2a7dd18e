"""The words by which replies choose, commend, reject and doubt, in the languages that models answer in.

Patterns for what stands *before* a letter end at it (``$``), those for what stands *behind* it begin there (``match``).
Texts are normalized: a space stands between Latin letters and Chinese, Japanese or Korean signs
(``evals.suites.kidgym.decode``).
"""

from __future__ import annotations

import re
from typing import Final

NOUN: Final = (
    r"(?:option|action|choice|letter|answer|ans|"
    r"respuesta|opci[oó]n|acci[oó]n|elecci[oó]n|conclusi[oó]n|letra|soluci[oó]n|antwort|aktion|wahl|l[oö]sung|buchstabe|"
    r"r[eé]ponse|choix|lettre|resposta|op[cç][aã]o|alternativa|escolha|a[cç][aã]o|risposta|opzione|scelta|azione|"
    r"ответ|вариант|действие|выбор|odpowied[zź]|antwoord|jawaban|cevap|đáp án|الإجابة|उत्तर)"
)
"""What a letter is called."""
_DECISION = rf"(?:{NOUN}|decision|move|step|pick|selection|response|conclusion|guess|correction)"
_CJK_NOUN = r"(?:答案|选项|選項|选择|選擇|动作|動作|行动|行動|回答|答え|正解|選択肢|下一步|정답|답|선택지|选|選|答)"
_BE = (
    r"(?:is|be|are|was|would|should|must|has|to|es|ser[ií]a|ist|lautet|w[aä]re|est|serait|é|è|будет|is|adalah|là)"
    r"(?:\s+(?:to\s+)?(?:be|therefore|thus|clearly|then|now|probably|definitely|obviously|simply|also|instead))*"
)
_VERB = (
    r"(?:choose|chose|choosing|select|selecting|selected|pick|picking|picked|take|taking|opt(?:ed)?\s+for|recommend|prefer|"
    r"g[oe](?:ing)?\s+(?:with|for)|went\s+with|start\s+with|decide[ds]?(?:\s+(?:on|for)|:)?|confident\s+in|left\s+with|"
    r"say|think|guess|guessing|believe|meant|mean|answers?|leaves|resta|it's|makes\s+it|c'est|che\s+sia|что|que\s+(?:es|sea|é|seja)|"
    r"elijo|escojo|selecciono|eleg?ir[ií]a|escoger[ií]a|elegir|escolho|seleciono|scelgo|scegliere|"
    r"w[aä]hle(?:\s+ich)?|nehme(?:\s+ich)?|f[uü]r|w[uü]rde|choisis|choisirais|choisir|prends|выбираю|kies|wybieram|memilih)"
)
_CONCLUDE = (
    r"(?:so|hence|thus|therefore|consequently|sino|sondern|mais|but|accordingly|i\.?\s?e\.|that's|that\s+is|conclusion|it\s+is|it's|must\s+be|"
    r"can\s+only\s+be|definitely|probably|=>|=|->|→|"
    r"por\s+(?:lo\s+)?tanto|as[ií]\s+que|por\s+eso|entonces|daher|deshalb|also|somit|folglich|donc|par\s+cons[eé]quent|"
    r"quindi|portanto|logo|поэтому|(?:which|that|this|it)\s+(?:is|corresponds\s+to|means|would\s+be))"
)
_ARTICLE = (
    r"(?:the|to|by|with|on|la|el|a|o|il|le|die|der|das|l'|an?|therefore|thus|clearly|obviously|definitely|simply|probably|only|"
    r"correct|best|right|final|next|my)"
)
OPEN: Final = r"""["'(\[{<\s]*"""
_END = r"\s*(?:[.,;:!)\]\"'\n-]|$|\s(?:it\s+is|because|since|as|weil|porque|car|parce|here|now|first|right)\b)"

DECLARES: Final = re.compile(
    rf"""(?:
        \b{_DECISION}["')\]]*(?:[ ][^\W\d]+){{0,9}}?\s*(?:\b{_BE}\b|[:=→]|-+>?)\s*
      | \b{_DECISION}\s*\n\s*
      | \b{_VERB}\s+
      | {_CJK_NOUN}[^\x00-\x7f]{{0,6}}\s*(?:[:=]\s*)?
      | \\boxed\s*\{{\s*(?:\\text\s*\{{)?
      | \banswers\W+ | ^\W*right\s
    )
    (?:{_ARTICLE}\s+)* (?:{NOUN}\s*[:\#]?\s*)? (?:l')? (?:{_CJK_NOUN})? {OPEN}$""",
    re.IGNORECASE | re.VERBOSE,
)
"""Before a letter that is the choice: *the answer is*, *I choose option*, *答案是*."""
_CJK_CONCLUDE = r"(?:而是|是|[所以因此故即则]|よって|したがって|따라서)"
CONCLUDES: Final = re.compile(
    rf"(?:(?<![^\W_]){_CONCLUDE}|[;:]|- |{_CJK_CONCLUDE})\s*[,:]?\s*(?:{_ARTICLE}\s+)*(?:{NOUN}\s*)?{OPEN}$",
    re.IGNORECASE,
)
"""Before a letter that concludes a sentence, as *so*; it counts where the clause ends behind it (``CLAUSE_ENDS``)."""
CLAUSE_ENDS: Final = re.compile(_END, re.IGNORECASE)
MENTIONS: Final = re.compile(rf"\b{NOUN}\s*[:#]?\s*{OPEN}$|(?:选项|選項|選択肢)\s*$", re.IGNORECASE)
"""Before a letter that is named as an option, whatever about it."""
LEADS: Final = re.compile(
    r"(?:^|[.,;:!?\n>=-]|\b(?:so|hence|thus|therefore|then|but|think|say|guess|believe|is|be|it's|use|try|do|prefer|want))"
    r"""[\s"'(\[]*$""",
    re.IGNORECASE,
)
"""Before a letter by itself that may be the choice where nothing else is."""

_GOOD = (
    r"(?:best|right|correct|answer|one|option|choice|action|good|better|nearest|next|needed|move|"
    r"richtig\w*|beste|correct[ae]?|mejor|meilleure?|bonne|melhor|corret[ao]|certa|corrett[ao]|migliore)"
)
COMMENDS: Final = re.compile(
    rf"""[\W_]{{0,4}}(?:
        (?<=[\W_])(?:is|seems|looks|would\s+be|es|est|ist|é|è)\s+(?:(?!not|no|nicht|pas|worse)[^\W\d]+['\s]+){{0,3}}?{_GOOD}\b
      | (?<=[\W_])(?:(?:die|la|le|the)\s+)?(?:richtig\w*|correct[ao]?|right|yes|best)\b
      | (?<=[\W_])(?:works|remains|fits|wins|beats|moves\s+me|gives\s+me|brings|it\s+is)\b
      | \s(?:seems|looks|sounds)\s+(?:right|correct|good|best)\b
      | \s*(?:选项)?\s*(?:是|为|が|가|이)?\s*(?:正确|正しい|정답|最好|更好|最佳|最合适|正解)
      | \s*(?:を選|を選択|를\s*선택|을\s*선택|です|입니다|选项$)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Behind a letter that is called the right one."""

REJECTED_BEFORE: Final = re.compile(
    r"(?:\b(?:not|never|cannot|of|than|over|avoid|without|neither|nor|exclude|reject|whether|(?:anything|all)\s+but|eliminate|eliminat\w+|"
    r"rul(?:e|ing)\s+out(?:\s+(?:is|are))?|ebenso|(?:wrong|incorrect|out|excluded)\W+so\s+(?:is|are)|nicht|pas|no\s+es|nem|não|non|niet|tempting|against)|n't|n'est\s+pas)\s+"
    rf"""(?:(?:to|be|that|think|believe|say|choose|pick|select|take|the|option|options|both|{NOUN})\s+)*["'(]*"""
    r"""(?:[A-Z]["')]*\s*(?:,|and|or|nor)\s*["'(]*)*$"""
    r"|\b(?:if|whether|unless|should\s+i|could|might|may|going\s+to|wanted\s+to|initially|at\s+first|would\s+have|thought"
    r"|podr[ií]a|k[oö]nnte)\s+(?:[^\W\d]+\s+){0,4}[\"'(]*$"
    r"|\b(?:before|antes\s+de|avant\s+de|bevor)\b[^.!?,;\n]{0,40}\(?$"
    r"|\bif\s+(?:i|we)(?:'d|\s+(?:chose|choose|were))\b[^.!?,\n]{0,20}$"
    r"|\bif\b[^.!?\n]*\bwould\b[^.!?\n]*$"
    r"|(?:不是|不选|不選|不应选|不应该选|想选|可能是|可能|或者|还是|或|不能选)\s*$"
    r"|\b(?:could|might|may|can(?!\s+only)|either|entweder|soit|o\s+bien)\s+(?:[^\W\d]+\s+){0,3}[\"'(]*(?:[A-Z]\W+(?:or|and|oder|ou|o)\s+)?$",
    re.IGNORECASE,
)
"""Before a letter that is not, or perhaps not, the choice."""
REJECTED_BEHIND: Final = re.compile(
    r"(?:\s*(?:,|and|or)\s*[A-Z])*[^\w,(]{0,3}\s*(?:"
    r"(?:is|are|was|were|seems|looks|would\s+be|will\s+be|must\s+be)\s+(?:\w+ly\s+|also\s+)?"
    r"(?:not|never|no|wrong|incorrect|impossible|useless|bad|worse|invalid|false|out|possible|blocked|tempting|better\s+left|a\s+dead\s+end|(?:also\s+)?(?:ruled\s+out|excluded|eliminated)|already)\b"
    r"|(?:(?:is|are|was|does|would|could|should|ca|wo)n't|(?:does|would|will|can|could|should)\s+not|cannot|fails|can\s+be\s+ruled)\b"
    r"|(?:wrong|incorrect|no|unreachable|blocked|not|impossible|falsch|incorrect[ao]|es\s+incorrecta|ist\s+falsch|n'est\s+pas)\b"
    r"|if\s|would\s+be\s+for\b|scheidet\b|(?<=\))(?:\s*,)?\s*(?:w[aä]re|would|но|but|pero|aber|mais)\b"
    r"|(?:looks|seems)\s+(?:tempting|possible|wrong)"
    r"|不对|不對|错|錯|不是|是错|不正确|ではありません|ではない|じゃない|아닙니다"
    r"|\?)",
    re.IGNORECASE,
)
"""Behind such a letter."""
ALTERNATIVE_BEFORE: Final = re.compile(
    r"[A-Z\ue000-\ue0ff]\W*(?:/|\b(?:or|oder|ou|o|e/ou)\b|或者?|还是|か|または)\s*(?:\w+\s+)?[\"'(]*$"
)
ALTERNATIVE_BEHIND: Final = re.compile(
    r"""(?:\s*,\s*["'(]*[A-Z]["')]*)*["')]*\s*,?\s*(?:/|\b(?:or|oder|ou|o)\b|或者?|还是|か|または)\s*(?:\w+\s+)?["'(]*[A-Z\ue000-\ue0ff](?![\w'])"""
)
"""*A or B*: neither is chosen."""
MAPPED: Final = re.compile(r"(?<!\w)[A-Z] (?:is|means) (?:position|label|slot|door|option|item|\w+ing)\b")
"""A letter that a text only explains; two of these are a list of what the letters mean."""
UNDECIDED: Final = re.compile(
    r"\b(?:can't|cannot|can not|don't want to|unable to) (?:decide|choose|tell|guess)\W{0,9}$", re.IGNORECASE
)
"""At the end of a reply that takes back what it said."""
OPEN_ENDED: Final = re.compile(
    r"\?|\b(?:or|oder|ou|o|either|entweder|could|might|may|maybe|perhaps|podr[ií]a|k[oö]nnte|whether|if)\b|可能|或|还是|か|または",
    re.IGNORECASE,
)
"""In a text that leaves something open, so that what is not named need not be what is left."""
PAIRED: Final = re.compile(r"[\"')]*\s*(?:\b(?:and|und|et|y|e|as\s+well\s+as)\b|&|和|与|と)\s*[\"'(]*[A-Z](?![\w'])")
"""Behind a letter that is one of two."""
LATER: Final = re.compile(
    r"\b(?:then|after\s+that|afterwards|later|followed\s+by|finally|next\s+(?:comes|one))\W+(?:[^\W\d]+\W+){0,4}$",
    re.IGNORECASE,
)
"""Before a letter whose turn comes after another's."""
PLACE: Final = re.compile(
    r"(?:\b(?:backpack|bag|slots?|position|grid|label|marker|cell|place|spot|items?|keys?|door|basket|chest|plan|part|picture|"
    r"pieces?|tiles?|animals?|type|exhibit|vitamin|vaccine|grade|case|sac|sacoche|ranura|mochila|fach|rucksack|caja|posici[oó]n|"
    r"grid|inventory|pocket)s?[\s'#:(]{1,2}(?:(?:in|from|of|is|at|to)\s+)?(?:the\s+)?(?:[A-Z]\s*(?:,|and|or|to|y|und|et)\s*)*"
    r"|\b(?:in|from|of|with|put|place|inside|into|use|uses|using)\s+"
    r"|(?:^|[\n.;,]\s*)[IV]+\s*:\s*|(?:背包|位置|格子?|槽|插槽|物品|钥匙|把|将|スロット|バックパック|배낭)\s*)$",
    re.IGNORECASE,
)
"""Before a letter that names a backpack slot or a position."""
PLACE_BEHIND: Final = re.compile(
    r"\s*(?:in|at|to|into|onto|on|for|->|→|holds|has|shows|contains|fits|opens|matches|goes|belongs|comes|first|last)\s+"
    r"(?:grid\s+|position\s+|label\s+|the\s+)?(?:[IV]+\b|\d|an?\b|first|last|next|door|basket|before|after)|\s*(?:里|中|打开)"
    r"|\s+is\s+(?:(?!better)\w+er\b|blue|red|yellow|green|the\s+(?!best|nearest)\w+est\b|fast|slow|heavy|light)|\s*[<>]\s*[A-Z]",
    re.IGNORECASE,
)
"""Behind such a letter."""
