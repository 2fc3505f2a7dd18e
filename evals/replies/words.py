"""The small English of replies: other languages and spellings are looked up in ``words.txt``."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PUNCTUATION: Final = frozenset(".!?;:,(\n")
ARTICLES: Final = frozenset({"a", "an", "the"})
EAST: Final = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Scripts that part no words, in a character class."""
_THAI: Final = r"\u0e00-\u0e7f"
_VOWELS: Final = r"\u064b-\u0652\u0900-\u0903\u093a-\u094f\u0981-\u0983\u09bc-\u09d7\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
"""Signs of Arabic, Devanagari, Bengali and Thai that belong to a word though they are no letters."""
_TOKEN = re.compile(rf"§[a-z]|[a-z0-9+#]+(?:'[a-z]+)?|(?:[^\W\d_a-z{EAST}]|[{_VOWELS}])+|\d+|[{EAST}]+|[.!?;:,(\n]")

_Meaning = str | Callable[[re.Match[str]], str]


def _rewritings(*pairs: tuple[str, _Meaning]) -> tuple[tuple[re.Pattern[str], _Meaning], ...]:
    return tuple((re.compile(pattern), meaning) for pattern, meaning in pairs)


_MARKS = _rewritings(
    # what is crossed or struck out is not chosen, what is ticked is
    (r"[✗✘❌✖≠]|~~|<s>", " not "),
    # marks of emphasis and formats, HTML and LaTeX
    (r"[*_`$\\§]|</?\w+>|\bboxed(?=\{)", " "),
    (r"(?m)^\W*#{1,6}\s", ""),
    (r"[✓✔✅☑]", " rightanswer "),
    (r"(?<![=<>!])=(?![=>])", " is "),
    # between letters an arrow goes on to the next step, elsewhere it concludes
    (r"(?<=\b[A-Z]) ?(?:=+>|-+>|[→⇒➜]) ?(?=[A-Z]\b)", " afterwards "),
    (r"(?<=\b[A-Z]) ?(?:=+>|-+>|[→⇒➜]) ?(?=(?:door|grid|position|basket|[IV]+)\b)", " to "),
    (r"=+>|-+>|[→⇒➜]", " so "),
    (r"\s[–—]+\s", " , "),
    # Latin letters beside those of scripts without spaces
    (rf"(?<=[{EAST}])(?=[A-Za-z])|(?<=[A-Za-z])(?=[{EAST}])", " "),
    # the full stop of an abbreviation ends no sentence
    (r"\b([Mm]rs|[Mm]r|[Dd]r|[Mm]s|[Ss]t|vs|e\.g|i\.e|nr|approx)\.", r"\1"),
    (r"\b[Ss][íì]\b", "yes"),
    # Thai parts sentences with spaces
    (r"(?<=\b[A-Z\d]) +(?=ค\S{1,2}ตอบ|ตัวเลือก)", ". "),
    # the ending that Turkish gives a letter
    (r"\b([A-HJ-Z])'(?:y[ıiuüea]|[ıiuü]|[dt][ıiuü]r)\b", r"\1"),
    # words that would be taken apart at their marks
    (r"ไม่|ผิด", " not "),
    (r"\b[Nn]ếu\b", "if"),
    (r"(?i)\b(option|choice|panel|candidate|picture|image|number) ?#(?=\d)", r"\1 "),
    (r"第\s*(\d+)\s*[个個号項项]", r" option \1 "),
    (r"(\d+)\s*[个個]", r" \1 things "),
    # a numeral, and a label written small
    (r"\b((?:grid|position|spot|number|at|to|into|in)(?: the)?) I\b(?!['’])", r"\1 numeral1"),
    (
        r"\b((?:choose|option|action|answer|letter|pick|select|think|say|is|:|,) )([b-hj-p])(?=\W*(?:$|\n|because|since))",
        lambda found: found[1] + found[2].upper(),
    ),
    (r"\A\W*([b-hj-p])(?= (?:because|since)\b)", lambda found: found[1].upper()),
)
_ARTICLE = re.compile(
    r"(?:(?<=^)|(?<=[.!?:\n(] )|(?<=[\n(\"]))A"
    r"(?= (?!(?:is|it|fits|or|and|because|since|as|to|in|no|not|here|would|seems|matches|works|was|opens|goes|then"
    r"|es|est|ist|er|je|jest|este|helyes|benar|salah)\b)[a-z])",
    re.MULTILINE,
)
"""An *A* that begins a sentence is no letter before most words; within a sentence the article is written small."""
_LETTER = re.compile(r"(?<![\w§'.-])([A-HJ-Z])(?!['\w-])(?!\+)")
_I = re.compile(
    r"(?<![\w'])I(?=[)\"']*\s*(?:$|[.;:!。\n]|, of|(?:is|seems|looks|because|since|as|here|based|in|at|first|right|now|then"
    r"|moves|gets|works|fits|would be)\b))|(?<=\()I\b|(?:(?<=option )|(?<=action )|(?<=choose ))I\b(?! (?:choose|would|pick))"
)
"""Where the ninth letter is no pronoun."""

_PHRASES = _rewritings(
    (r"°", " deg "),
    (r"anti-clock", "anticlock"),
    # words that mean something together
    (r"\bpick(?:ing|ed)?(?: (?:it|them))? up\b", "pickup"),
    (r"\b(?:(?:go|going|went) (?:with|for)|stick to)\b", "choose"),
    (r"\b(?:about|going|wanted|want|tempted) to (?:say|ask|answer|choose|pick|go|check|do|run)\b", "thought"),
    (
        r"\b(?:tempting|would be easy|risky|hasty|premature|too (?:early|soon|dangerous))"
        r" to (?:say|ask|answer|choose|pick|select|take|check|do|run|predict|guess|go)\b",
        "thought",
    ),
    (r"\b(?:(?:naive|hasty|careless|greedy) \w+|a beginner|nobody|no one) would\b", "thought"),
    # what is tempting, before a comma and an infinitive
    (r"\b(verlockend|verleidelijk|заманчиво|kuszace),", r"\1"),
    (r"\b(?:ruled out|rules? out|ruling out|out of the question)\b", "not"),
    (r"\b(?:should|could|would|must|might) have\b", "thought"),
    (r"\b(are|were)n't\b", r"\1 not"),
    (r"\bnext to\b", "beside"),
    (r"\b(?:yerine|degil)\b", "not ,"),
    (r"\b(?:prima di|avant de|antes de)\b", "before"),
    (r"\b(?:leav(?:es?|ing) (?:us|me|only|just)(?: with)?|that leaves|leaves\s+(?=§))", "remains "),
    (r"\b(?:should|must) be placed\b", "should put"),
    (r"\b(?:can only be|has to be|must be)\b", "must is"),
    (r"\bhold on\b", "wait"),
    # conditions that begin with a word of other uses, and Dutch "in order to"
    (r"(?:\A|(?<=[.!?\n] ))(?:se|ha|als (?:de|het|een|er)) (?=[^.!?\n]*,)", "if "),
    (r"\bom\b(?=[^.!?\n]*\bte\b)", "for"),
    (r"\bwins(?=\W*(?:$|[.!;\n]))", "is best"),
    (r"\b(type|class|stage|grade)[ -]*§?(i{1,3})\b", lambda found: f"{found[1]} {len(found[2])}"),
    (r"\b(?:puede|pode|podria|poderia|puo|potrebbe|peut|pourrait) (?:ser|essere|etre)\b", "maybe is"),
    (r"\bon second thoughts?\b", "however"),
    (r"\b(?:scratch that|strike that|i take (?:that|it) back|my (?:mistake|bad))\b", "correction"),
    (r"\b(?:i meant|jeg mente|voiam sa spun|xin lõi|maksud saya|(?:make that|i mean)(?= +§))", "correction"),
    (r"\b(?:edit|update):", "correction:"),
    (r"\b(?:after all|in this case|at this (?:step|point))\b", "now"),
    (r"\bwould be (?=the (?:right|correct|best)\b)", "is "),
    (r"\bnow that\b", "because"),
    (r"\bthen ?:", "so:"),
    (r"\buntil then\b", "now"),
    (r"\bmost likely\b", "probably"),
    (r"\b(?:no|without(?: a| any)?) doubt\b", "surely"),
    (r"\b(?:anything|all|everything) but\b", "not"),
    (r"\bif i (?:have|had) to (?:guess|choose|pick|say)\b", "so"),
    (r"\band (?:the )?next\b", "then next"),
    (r"\bso far\b", "hitherto"),
    (r"\bis the only\b", "is the best"),
    (r"\bthis (?:time|turn|round)\b", "now"),
    # what a patient has is what is looked for
    (r"\b(?:the|this) (?:patient|person) (?:has|suffers from|is suffering from)\b", "the patient is"),
    # what is put behind something else
    (r"\b((?:prefer|favou?r)(?:s|red|ring)?) (?!to\b)([^.,;:\n]{1,80}?) to\b", r"\1 \2 over"),
    (r"\bpreferable to\b", "better than"),
    (r"\bas opposed to\b", "over"),
    (r"\b(?:second|next)[ -]best\b", "not"),
    (r"\b(?:worst|backup|secondary|initial) (option|answer|choice|action|move)\b", r"not \1"),
    (r"\b(?:common|usual|frequent) mistake\b", "not"),
    # "nu" is "now" in other languages
    (r"\bnu (?=(?:este|e|se|aleg|poate|cred|varianta|raspunsul)\b)", "not "),
    # "er", "je" and "este" are "he", "I" and "this" in other languages
    (
        r"\b(?:er|je|este) (?=ikke|forkert|feil|galt|ri[gk]tig|spatn|chybn|spravn|nespravn|gresit|corect|incorect)",
        "is ",
    ),
    (r"(?<=, )men(?= +§)", "but"),
    (r"\bin the next (?:step|turn|move)\b", "afterwards"),
    # a list in which each option has its yes or no
    (r"(§[a-z]|\d+) +(yes|no)(?=,? +(?:§[a-z]|\d+) +(?:yes|no)\b|\W*\Z)", r"\1: \2.\n"),
    # right is a direction too
    (r"\b(is|seems|looks)(?: to be)? right(?= ?(?:$|[.,;!\n]|because|since|here|as\b))", r"\1 rightanswer"),
    (r"\b(?:is|be|the only) the right (?=one\b)", "is the rightanswer "),
    (r"\bthe right (?=(?:move|answer|choice|option|action|test|label)\b)", "the rightanswer "),
    (r"\b((?:wrong|incorrect|out|not|excluded|impossible)\b[^.;]*[.;] )so (?:is|are) ", r"\1not "),
    # 's is *is* behind these words only
    (r"(?<!\bit)(?<!\bthat)(?<!\blet)(?<!\bwhat)(?<!\bhere)'s\b", ""),
    # hyphens, and the articles of Romance languages
    (r"(?<=[a-z])-(?=left|right)", " "),
    (r"(?<=[a-z])-(?=[a-z])", ""),
    (r"\b(?:[cdjlmnst]|qu)'(?=[a-z]{2})(?!t\b)", " "),
    # punctuation of scripts without spaces
    (r"[。！।]", ".\n"),
    (r"[？؟]", "?\n"),
    (r"[，、،]", ","),
    (r"；", ";"),
)


@dataclass(frozen=True)
class _Lexicon:
    """``words.txt``."""

    fillers: frozenset[str]
    """Words that change nothing; options are not called by them."""
    nouns: frozenset[str]
    """Words that change nothing where no option has them."""
    words: Mapping[str, str]
    """Words of other languages, and other forms."""
    signs: tuple[tuple[str, str], ...]
    """Parts of words of scripts without spaces, longest first."""
    cues: Mapping[str, frozenset[str]]
    """Words that tell what a clause does, by kind."""


@functools.cache
def _lexicon() -> _Lexicon:
    text = Path(__file__).with_name("words.txt").read_text(encoding="utf-8")
    sections = [part.split("\n", 1)[1] for part in re.split("^# ", text, flags=re.MULTILINE)[1:]]
    fillers, nouns, words, signs, kinds = sections
    by_sign = {folded(sign): meaning.replace("_", " ") for meaning, sign in _entries(signs)}
    cues = {}
    for line in kinds.splitlines():
        kind, _, members = line.partition(":")
        cues[kind] = frozenset(members.split())
    return _Lexicon(
        fillers=frozenset(folded(fillers).split()),
        nouns=frozenset(nouns.split()),
        words={folded(word): meaning for meaning, word in _entries(words)},
        signs=tuple(sorted(by_sign.items(), key=lambda entry: -len(entry[0]))),
        cues=cues,
    )


def _entries(lines: str) -> Iterator[tuple[str, str]]:
    """The words of a section, each with what it means: ``meaning: word word``."""
    for line in lines.splitlines():
        meaning, _, words = line.partition(":")
        for word in words.split():
            yield meaning.strip(), word


def cues(kind: str) -> frozenset[str]:
    """The words of the small English that do one thing, as *decides*."""
    return _lexicon().cues[kind]


def fillers() -> frozenset[str]:
    """Words that say nothing about any option."""
    return _lexicon().fillers


def nouns() -> frozenset[str]:
    """Words for what options and questions are about, which tell no options apart."""
    return _lexicon().nouns


@functools.cache
def known_words() -> frozenset[str]:
    """The small English: fillers, nouns, cues, and what words of other languages mean."""
    lexicon = _lexicon()
    return lexicon.fillers.union(lexicon.nouns, lexicon.words.values(), *lexicon.cues.values())


_BARE: Final = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe"})
"""Letters that no accent parts from the Latin ones which they are like."""


def folded(text: str) -> str:
    """The text in lower case, without accents on Latin letters."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text)).casefold().translate(_BARE)
    return unicodedata.normalize("NFC", re.sub(r"(?<=[a-z])[\u0300-\u036f]", "", plain))


def plain_words(text: str) -> list[str]:
    """The tokens of a text: words of the small English, letters of options as ``§b``, and punctuation."""
    for pattern, meaning in _MARKS:
        text = pattern.sub(meaning, text)
    text = _I.sub(" §i ", _ARTICLE.sub("a", text))
    text = _LETTER.sub(lambda letter: f" §{letter[1].lower()} ", text)
    text = folded(text)
    for pattern, meaning in _PHRASES:
        text = pattern.sub(meaning, text)
    lexicon = _lexicon()
    if re.search(f"[{EAST}{_THAI}]", text):
        for sign, meaning in lexicon.signs:
            text = text.replace(sign, f" {meaning} ")
    return [lexicon.words.get(token, token) for token in _TOKEN.findall(text)]


@functools.lru_cache(maxsize=4096)
def phrase(option: str) -> tuple[str, ...]:
    """The words of an option in their order, without articles if there are others."""
    words = tuple(word for word in plain_words(option) if word not in PUNCTUATION)
    return tuple(word for word in words if word not in ARTICLES) or words


def content(option: str) -> frozenset[str]:
    """The words that tell what an option is; all of them if these are fillers."""
    words = phrase(option)
    own = frozenset(singular(word) for word in words if word not in fillers() and word not in ("not", "no"))
    return own or frozenset(words)


def singular(word: str) -> str:
    """The word without the s of a plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
