"""What the clauses of a reply say of options, for all suites.

A reply is taken apart into sentences and clauses, in the small English of ``evals.replies.reply_words``. A clause
*claims* an option
if it decides (*I choose*, *so*, *X is best*), or is *bare*: nothing but the option; it *rejects* one if it negates it, and
*doubts* if it weighs, asks or takes back. A *fact* says what something is (*it is X*, *the bird is X*), a *statement* says
something else of options; else it only mentions them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evals.replies.naming import AWAY, PLACES, Mention, Options
from evals.replies.reply_words import EAST, cues, plain_words

_ASIDES = re.compile(r"[(（]([^()（）]*)[)）]")
_NEXT_QUESTION = re.compile(r"\n\W*Question\s*\d*\s*:")
"""Where a reply goes on with a question of its own."""

_NUMBERED = re.compile(r"^\W*(?:\d{1,2}|[A-Z])[.):]\s+(?=\S)", re.MULTILINE)
"""A number or letter before a line."""

_END = frozenset(".!?;\n")
_NOT = cues("negates")
_OR = cues("weighs")
_TURN = cues("turns")
_LATER = cues("later")
_BREAK = cues("begins a clause")
"""Words with which a clause begins."""
_ASIDE = cues("begins an aside")
"""Words with which a clause begins that claims nothing."""
_DECIDES = cues("decides")
"""Words before an option that is chosen."""
_URGES = cues("urges")
"""Words before an option that is chosen, if the clause says nothing else."""
_COMMENDS = cues("commends")
"""Words behind it."""
_KNOWN = cues("known")
"""Words of a clause that tells what is known, or was thought."""
_PARTS = cues("parts")
"""Words of a clause that tells of a part of the question."""
_POINTS = cues("points")
"""Words that mean an option without naming it."""
_LEFT = cues("left")
"""Words that mean the option that is left over."""
_ELSE = cues("others")
"""Words of a subject that is not what is looked for, or not yet."""
_INTRODUCES = cues("introduces")
"""Words with which a clause begins that does not limit what follows."""
_OPEN = cues("open")
"""Words with which no clause ends."""
_COPULA = cues("copula")
"""Words between a subject and its name."""

Kind = Literal["claim", "bare", "fact", "identity", "statement", "mention", "reject", "doubt", "turn", "but"]


@dataclass(frozen=True)
class Event:
    """What a clause says of options; a turn, and a doubt of everything, name none."""

    kind: Kind
    options: frozenset[int]
    sentence: int


# --- from words to what is said --------------------------------------------------------------------------------------


def events_of(text: str, options: Options) -> Iterator[Event]:
    """What a reply says of options, clause by clause."""
    text = _NUMBERED.sub("", text) if "\n" in text else text
    text = _NEXT_QUESTION.split(text)[0]
    text = _ASIDES.sub(lambda aside: _aside(text, aside), text)
    for number, (sentence, asks) in enumerate(_sentences(plain_words(text))):
        masked = options.masked(sentence)
        said = list(_said(masked, options, asks, number))
        yield from said
        named = any(event.options for event in said)
        if "doubt" in masked or (not named and _unnamed_doubt(masked, options)):
            yield Event("doubt", frozenset(), number)


def _unnamed_doubt(sentence: Sequence[str], options: Options) -> bool:
    """Whether a sentence that names no option decides for another one, weighs, or stops to think."""
    if options.numeric and any(token.isdecimal() and token not in options.known for token in sentence):
        return True
    words = set(sentence) - options.known
    clauses = map(set, _clauses(sentence, options))
    decides = (_DECIDES | _URGES | _COMMENDS) - options.known
    return (
        sentence[0] in ("wait", "hmm", "hm")
        or bool(words & _DECIDES and words & _OR)
        or any(clause & decides and _elsewhere(clause) for clause in clauses)
    )


def _aside(text: str, aside: re.Match[str]) -> str:
    """What stands in brackets: nothing if it abbreviates what stands before, a clause of its own if it is long."""
    words = re.findall(r"\w+", text[max(0, aside.start() - 200) : aside.start()])
    initials = "".join(word[0] for word in words[-len(aside[1]) :])
    if len(initials) > 1 and initials.casefold() == aside[1].casefold():
        return " "
    return f" ({aside[1]} " if len(aside[1].split()) < 4 else f" , {aside[1]} , "


def _elsewhere(words: set[str]) -> bool:
    """Whether the words of a sentence mean an option that it does not name, and not the one that is left over."""
    return bool(words & _POINTS) or ("one" in words and not words & _LEFT)


def _said(sentence: Sequence[str], options: Options, asks: bool, number: int) -> Iterator[Event]:
    """What the clauses of a sentence say, in order."""
    before: Event | None = None
    first = False
    clauses = list(_clauses(sentence, options))
    for place, clause in enumerate(clauses):
        mentions = options.mentions(clause)
        meant = [mention for mention in mentions if not _aside_of(clause, mention)]
        refused, chosen = _parted(clause, meant, options)
        rejects = [Event("reject", mention.options, number) for mention in refused]
        before = rejects[-1] if rejects else before
        yield from (Event(kind, frozenset(), number) for kind in _turns(clause, place, sentence, before, options))
        yield from rejects
        if clause[0] == "if":
            return
        if not chosen or clause[0] in _ASIDE:
            continue
        limited = any(not _sets_no_condition(one, options) for one in clauses[:place])
        event = _judged(clause, chosen, options, before, limited, number)
        later = not _LATER.isdisjoint(clause[:3]) and (place > 0 or clause[0] == "afterwards")
        if event and not (later and first):  # what comes after a first step is not chosen now
            kind = _in_context(event, before, asks, len(meant) < len(mentions))
            before = replace(event, kind="doubt" if later else kind)
            yield before
        first = first or not {"first", "now", "next"}.isdisjoint(clause)


def _turns(
    clause: Sequence[str], place: int, sentence: Sequence[str], before: Event | None, options: Options
) -> Iterator[Kind]:
    """How a clause bears on what stands before it, whatever it names: turns away from it, limits or supposes it."""
    if not _TURN.isdisjoint(clause) or (clause[0] == "no" and "no" not in options.sole):
        yield "turn"
    if clause[0] == "but":
        yield "but" if place else "turn"
    supposes = clause[0] == "if" and not {"would", "i'd", "could"}.isdisjoint(sentence)
    if supposes or (clause[0] in ("if", "when") and before and before.kind == "identity"):
        yield "doubt"


def _in_context(event: Event, before: Event | None, asks: bool, beside: bool) -> Kind:
    """What a clause says in its sentence: a question doubts, and a bare name goes on with what stands before.

    Args:
        event: What the clause says by itself.
        before: What the clause before says.
        asks: Whether the sentence is a question.
        beside: Whether the clause also names something that is not meant.
    """
    if asks:
        return "doubt"
    if beside:
        return "mention"
    spoken = before and before.kind in ("mention", "statement", "identity") and len(before.options) == 1
    if event.kind == "bare" and before and spoken and before.options != event.options:
        return "mention"
    return event.kind


def _sets_no_condition(clause: Sequence[str], options: Options) -> bool:
    """Whether a clause leaves what follows in its sentence as it is: *after these results*, but not *in winter*."""
    return clause[0] in _INTRODUCES or all(options.is_filler(token) or token in _DECIDES for token in clause)


def _aside_of(clause: Sequence[str], mention: Mention) -> bool:
    """Whether something beside or about an option is meant, not the option."""
    before = [token for token in clause[: mention.start] if token not in ("a", "an", "the")]
    return not AWAY.isdisjoint(before[-1:])


def _parted(
    clause: Sequence[str], mentions: Sequence[Mention], options: Options
) -> tuple[list[Mention], list[Mention]]:
    """The mentions that a clause negates, and those that it does not.

    A negation holds for what follows it in a list, or for all that stands before it if nothing follows. Two are none.
    """
    ends = [0, *(mention.stop for mention in mentions)]
    gaps = [clause[end : mention.start] for end, mention in zip(ends, mentions, strict=False)]
    negations = [
        sum(token in _NOT and token not in options.sole for token in gap) for gap in (*gaps, clause[ends[-1] :])
    ]
    if not any(negations[:-1]):
        return (list(mentions) if negations[-1] == 1 else []), ([] if negations[-1] else list(mentions))
    refused: list[Mention] = []
    chosen: list[Mention] = []
    state = 0
    for mention, gap, count in zip(mentions, gaps, negations, strict=False):
        state = count or (state if (_DECIDES | _URGES | {"is"}).isdisjoint(gap) else 0)
        if state < 2:
            (refused if state else chosen).append(mention)
    taken = [mention.options for mention in refused]
    return refused, [mention for mention in chosen if mention.options not in taken]


def _judged(
    clause: Sequence[str], chosen: Sequence[Mention], options: Options, before: Event | None, limited: bool, number: int
) -> Event | None:
    """What a clause says of the options that it names and does not negate; ``limited`` if a condition may stand before."""
    words = set(clause) - options.known
    everything: frozenset[int] = frozenset().union(*(mention.options for mention in chosen))
    if words & _OR:
        return Event("doubt", everything, number)
    if words & (_KNOWN | _PARTS) or "would" in clause[chosen[-1].stop :]:
        return None
    others = _others(clause, chosen, options)
    goes_on = not others and not words & (_DECIDES | _URGES | {"is"})
    if goes_on and before and before.kind in ("reject", "doubt"):
        return Event(before.kind, everything, number)
    meant = frozenset.intersection(*(mention.options for mention in chosen))
    if not meant:
        return _of_two(clause, chosen, others, options, limited, number)
    kind = _of_one(clause, chosen, others, options, limited)
    return Event(kind, meant, number) if kind else None


def _others(clause: Sequence[str], chosen: Sequence[Mention], options: Options) -> list[str]:
    """The words of a clause that are no part of a mention and might say something."""
    inside = {place for mention in chosen for place in range(mention.start, mention.stop)}
    for mention in chosen:
        bracketed = clause[mention.start - 1 : mention.start] == ["("]
        if bracketed and not clause[mention.start].startswith("§"):  # a name in another language stands before
            inside |= {mention.start - 2, mention.start - 3}
    return [
        token
        for place, token in enumerate(clause)
        if place not in inside and not options.is_filler(token) and not options.is_vague(token)
    ]


def _of_two(
    clause: Sequence[str],
    chosen: Sequence[Mention],
    others: Sequence[str],
    options: Options,
    limited: bool,
    number: int,
) -> Event | None:
    """What a clause says that names different options: *the circle is above the square*, *A fails, so B*."""
    last = chosen[-1]
    between = clause[chosen[-2].stop : last.start]
    if _complement(between, options):
        pointed = not {"it", "this", "that", "it's"}.isdisjoint(between[-3:])
        identity = not limited and _identifies(clause, last, options)
        return Event("fact" if pointed else "identity" if identity else "statement", last.options, number)
    if not (_DECIDES | _URGES).isdisjoint(between[-2:]):
        return Event("claim", last.options, number)
    everything: frozenset[int] = frozenset().union(*(mention.options for mention in chosen))
    return None if others else Event("doubt", everything, number)


def _of_one(
    clause: Sequence[str], chosen: Sequence[Mention], others: Sequence[str], options: Options, limited: bool
) -> Kind | None:
    """How a clause speaks of what it names, if all its mentions agree."""
    start, stop = chosen[0].start, chosen[-1].stop
    if _claims(clause, start, stop, others, options):
        return "claim"
    broken_off = clause[-1] in _OPEN and clause[-2:] != ["it", "is"]
    if not others and not broken_off and not (clause[0] in ("it", "he", "she") and "is" not in clause[:2]):
        return "bare"
    if (PLACES & set(others) & options.known) or "yes" in options.sole:
        return None
    if _complement(clause[:start], options):
        if all(map(options.is_filler, clause[: _copula(clause, start)])):
            return "fact"
        return (
            "identity" if not limited and len(chosen) == 1 and _identifies(clause, chosen[0], options) else "statement"
        )
    if any(mention.whole for mention in chosen):
        return "statement"
    return None if clause[start].startswith("§") else "mention"


def _copula(clause: Sequence[str], stop: int) -> int:
    """The place of the last *is* or *has* before another."""
    return max(place for place, token in enumerate(clause[:stop]) if token in ("is", "has"))


def _identifies(clause: Sequence[str], name: Mention, options: Options) -> bool:
    """Whether a clause names what is looked for: *the bird is X*, *the only bird that fits is X*, in full and no more."""
    copula = _copula(clause, name.start)
    gloss = clause.index("(", copula) if "(" in clause[copula:] else len(clause)
    return (
        clause[copula] == "is"
        and _COPULA.issuperset(clause[copula + 1 : name.start])
        and all(map(options.is_filler, clause[name.stop : gloss]))
        and clause[-1] not in _OPEN
        and options.in_full(clause, name)
        and _looked_for(clause[:copula], options)
    )


def _looked_for(subject: Sequence[str], options: Options) -> bool:
    """Whether a subject is what the question looks for: a noun, or what is said to be the only or best one."""
    words = [token for token in subject if token not in ("so", ",", "can", "must")]
    if len(words) == 1 and subject[0] == "so":
        return bool(re.fullmatch(f"[{EAST}]+", words[0]))
    if words[:1] != ["the"] or len(words) < 2 or not _ELSE.isdisjoint(words):
        return False
    if any(options.word(token) and not options.is_vague(token) and token not in options.heads for token in words):
        return False
    praised = words[2:] if words[1] == "most" else words[1:]
    if praised and (praised[0] in _COMMENDS or praised[0] == "only"):
        return True
    return len(words) == 2 or (words[2].endswith("ed") and len(words) > 3)


def _claims(clause: Sequence[str], start: int, stop: int, others: Sequence[str], options: Options) -> bool:
    """Whether a clause decides for what it names between two places: not for something beside it, or said of it."""
    if set(clause[stop:]) & _COMMENDS - options.known:
        return True
    told = not {"is", "has"}.isdisjoint(clause[stop : stop + 1]) and not all(map(options.is_filler, clause[stop:]))
    before = set(clause[:start]) - options.known
    return not told and bool(before & _DECIDES or (before & _URGES and not others))


def _complement(before: Sequence[str], options: Options) -> bool:
    """Whether only fillers stand between *is* and what follows these words."""
    glossed = before[-1:] == ["("]  # what stands before a name in brackets is the name in another language
    for token in reversed(before):
        if token in ("is", "has"):
            return "there" not in before or options.numeric
        if not options.is_filler(token) and not glossed:
            return False
    return False


def _sentences(tokens: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """The sentences, each with whether it is a question."""
    sentence: list[str] = []
    for token in (*tokens, "\n"):
        if token not in _END:
            sentence.append(token)
        elif sentence:
            yield sentence, token == "?"
            sentence = []


def _clauses(sentence: Sequence[str], options: Options) -> Iterator[list[str]]:
    clause: list[str] = []
    for place, token in enumerate(sentence):
        if token == ":":
            decides = bool(options.mentions(clause)) and not (_DECIDES | _URGES | _COMMENDS).isdisjoint(clause)
            parts = decides or _sums_up(clause, sentence[place + 1 :], options)
        else:
            parts = token == "," and not _introduces(clause) and not _goes_on(clause, sentence[place + 1 :], options)
        if (parts or (token in _BREAK and token not in options.known and not _introduces(clause))) and clause:
            yield clause
            clause = []
        if not (token in (",", ":") and not clause):
            clause.append(token)
    if clause:
        yield clause


def _sums_up(clause: Sequence[str], rest: Sequence[str], options: Options) -> bool:
    """Whether a label behind a colon is what a clause comes to: *the sizes differ: B*, but not *not right: B*."""
    label = len(rest) == 1 and rest[0] in options.labels
    unsure = _NOT | _OR | _KNOWN | _PARTS | _ELSE | {"if"}
    return label and len(clause) > 2 and unsure.isdisjoint(clause) and options.is_label((*clause, rest[0]), len(clause))


def _introduces(clause: Sequence[str]) -> bool:
    """Whether a clause is but a word like *so* or *actually*, which belongs to the next."""
    return 0 < len(clause) < 3 and all(token in _BREAK or token in _TURN or token == "," for token in clause)


def _goes_on(clause: Sequence[str], rest: Sequence[str], options: Options) -> bool:
    """Whether a comma stands in a list of options: *Malaria, Influenza and Pneumonia*."""

    def names(token: str) -> bool:
        return token[0] in "¤§" or options.word(token) not in (None, *options.shared)

    item = list(rest[: rest.index(",")] if "," in rest else rest)
    while item and item[0] in ("and", "or", "a", "the"):
        item.pop(0)
    if not clause or not item or not names(clause[-1]) or not names(item[0]):
        return False
    item = list(itertools.takewhile(lambda token: token not in ("are", "were"), item))  # pieces A, B are wrong
    return (
        "and" in item
        or "or" in item
        or all(names(token) or (options.is_filler(token) and token not in ("is", "it's")) for token in item)
    )
