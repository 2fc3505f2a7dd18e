"""What the clauses of a reply say of options.

A reply is taken apart into sentences and clauses, in the small English of ``evals.replies.words``. Each clause says one
of these things of the options that it names:

- ``claim``: it decides for one (*I choose B*, *so B*, *B is best*, *the next move is B*)
- ``bare``: it names one and says nothing else
- ``fact``: *it is X*; ``identity``: *the bird is X*; ``statement``: something else is X, or X is a sentence that it says
- ``mention``: it says something else in which X occurs
- ``reject``: it negates it
- ``doubt``: it weighs, asks or supposes; without options, it doubts what was said before

or turns away from what was said before (``turn``), or limits it (``but``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from evals.replies.options import Mention, Options
from evals.replies.words import ARTICLES, cues, phrase, plain_words

Kind = Literal["claim", "bare", "fact", "identity", "statement", "mention", "reject", "doubt", "turn", "but"]

_NOT: Final = cues("negates")
_WEIGHS: Final = cues("weighs")
_TURNS: Final = cues("turns")
_LATER: Final = cues("later")
_BREAKS: Final = cues("begins a clause")
_SAYS_NOTHING: Final = cues("begins an aside")
_DECIDES: Final = cues("decides")
_URGES: Final = cues("urges")
_COMMENDS: Final = cues("commends")
_KNOWN: Final = cues("known") | cues("parts")
_OPEN: Final = cues("open")
_NOT_LOOKED_FOR: Final = cues("others")
_POINTS: Final = cues("points")
_LEFT: Final = cues("left")
_IS: Final = cues("is")
_SENTENCE_ENDS: Final = frozenset(".!?;\n")
_JOINS: Final = frozenset({"and", "or"})

_NUMBERED = re.compile(r"^\W*\d{1,2}[.)]\s+(?=\S)", re.MULTILINE)
_LETTERED = re.compile(r"^\W*[A-Z][.)]\s+(?=[A-Z][a-z])", re.MULTILINE)
"""A number before a line, and a letter before one of several lines of prose."""
_BRACKETS = re.compile(r"[(（]([^()（）]*)[)）]")
_LONGEST_CLAUSE: Final = 30
_SHORT_ASIDE: Final = 3
"""Words in brackets up to which they belong to what stands before them."""


@dataclass(frozen=True)
class Event:
    """What a clause says of options; a turn, and a doubt of everything, name none."""

    kind: Kind
    options: frozenset[int]
    sentence: int


def events_of(text: str, options: Options) -> Iterator[Event]:
    """What a reply says of options, clause by clause."""
    text = _NUMBERED.sub("", text)
    if "\n" in text.strip():
        text = _LETTERED.sub("", text)
    text = _BRACKETS.sub(_without_brackets, text)
    for number, (sentence, asks) in enumerate(_sentences(plain_words(text))):
        events = list(_Sentence(sentence, options, number, asks).events())
        yield from events
        named = any(event.options for event in events)
        if not named and _doubts_unnamed(sentence, options):
            yield Event("doubt", frozenset(), number)


def _without_brackets(aside: re.Match[str]) -> str:
    """What stands in brackets: nothing if it abbreviates what stands before, a clause of its own if it is long."""
    before = re.findall(r"\w+", aside.string[max(0, aside.start() - 200) : aside.start()])
    initials = "".join(word[0] for word in before[-len(aside[1]) :])
    if len(initials) > 1 and initials.casefold() == aside[1].casefold():
        return " "
    if len(aside[1].split()) > _SHORT_ASIDE:
        return f" , {aside[1]} , "
    return f" ({aside[1]} "


def _sentences(tokens: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """The sentences, each with whether it is a question."""
    sentence: list[str] = []
    for token in (*tokens, "\n"):
        if token not in _SENTENCE_ENDS:
            sentence.append(token)
        elif sentence:
            yield sentence, token == "?"
            sentence = []


def _doubts_unnamed(sentence: Sequence[str], options: Options) -> bool:
    """Whether a sentence that names no option doubts what was said: decides for another, weighs, or stops to think."""
    first = sentence[0]
    said = set(sentence) - options.known
    if first in ("wait", "hmm", "hm"):
        return True
    # "Or it is ..."
    if len(sentence) == 3 and sentence[-2:] == ["it", "is"]:
        return True
    # "It isn't likely."
    if first in ("it", "is", "this", "that") and not said.isdisjoint(_NOT):
        return True
    # A number that no option has, where options are numbers.
    has_number = any(map(str.isdecimal, said))
    if options.numeric and has_number:
        return True
    # "The other one, then."
    return any(_points_elsewhere(clause, options) for clause in _clauses(sentence, options))


def _points_elsewhere(clause: Sequence[str], options: Options) -> bool:
    """Whether a clause decides for an option without naming it: *the last one*, *the other*."""
    words = set(clause)
    if (words - options.known).isdisjoint(_DECIDES | _URGES | _COMMENDS):
        return False
    if not words.isdisjoint(_POINTS):
        return True
    return "one" in words and words.isdisjoint(_LEFT)


class _Sentence:
    """One sentence, clause by clause."""

    def __init__(self, tokens: Sequence[str], options: Options, number: int, asks: bool) -> None:
        self.options = options
        self.number = number
        self.asks = asks
        self.clauses = list(_clauses(tokens, options))
        self.explains = ":" in tokens
        self.supposes = "if" in tokens and not {"would", "i'd", "could"}.isdisjoint(tokens)

    def events(self) -> Iterator[Event]:
        """What the clauses say, in order."""
        before: Event | None = None
        first_step = False
        for place, clause in enumerate(self.clauses):
            options = self.options
            mentions = options.mentions(clause)
            meant = [mention for mention in mentions if not _stands_beside(clause, mention)]
            refused, chosen = _parted(clause, meant, options)
            yield from self._turns(place, clause, before)
            for mention in refused:
                before = Event("reject", mention.options, self.number)
                yield before
            # Nothing behind an "if" is said for certain.
            if clause[0] == "if":
                return
            if not chosen or clause[0] in _SAYS_NOTHING:
                continue
            kind, named = self._judge(place, clause, chosen, mentions)
            is_later = not _LATER.isdisjoint(clause[:3]) and (place > 0 or clause[0] == "afterwards")
            # What comes after a first step is not chosen now; without one, it is not clear which is.
            if kind is not None and not (is_later and first_step):
                event = Event(kind, named, self.number)
                beside = any(clause[one.start - 1] not in ("over", "beats") for one in mentions if one not in meant)
                kind = self._in_context(clause, event, before, beside)
                before = replace(event, kind="doubt" if is_later else kind)
                yield before
            first_step = first_step or kind == "claim" or not {"first", "now", "next"}.isdisjoint(clause)

    def _turns(self, place: int, clause: Sequence[str], before: Event | None) -> Iterator[Event]:
        """How a clause bears on what stands before it, whatever it names."""
        nothing: frozenset[int] = frozenset()
        objects = clause[0] == "no" and not self.options.yes_no
        if objects or not _TURNS.isdisjoint(clause):
            yield Event("turn", nothing, self.number)
        # At the beginning of a sentence "but" turns away from the one before; within a sentence it limits.
        if clause[0] == "but":
            yield Event("but" if place else "turn", nothing, self.number)
        if self._sets_condition(clause, before):
            yield Event("doubt", nothing, self.number)

    def _sets_condition(self, clause: Sequence[str], before: Event | None) -> bool:
        """Whether what was said before holds only if a clause does: *The bird is X when ...*, *X, if ...*."""
        if clause[0] == "if" and self.supposes:
            return True
        if clause[0] not in ("if", "when") or before is None:
            return False
        if before.kind == "bare":
            return not self.explains  # "Spirometry: if it is low, ..." says what the test is for
        return before.kind in ("identity", "claim")

    def _judge(
        self, place: int, clause: Sequence[str], chosen: Sequence[Mention], mentions: Sequence[Mention]
    ) -> tuple[Kind | None, frozenset[int]]:
        """What a clause says of the options that it chooses from all that it mentions."""
        options = self.options
        everything: frozenset[int] = frozenset().union(*(mention.options for mention in chosen))
        agreed = frozenset.intersection(*(mention.options for mention in chosen))
        words = set(clause) - options.known
        if not words.isdisjoint(_WEIGHS):
            return "doubt", everything
        # What is known already, parts of the question, and what would follow choose nothing.
        is_known = not (words - options.added_nouns).isdisjoint(_KNOWN)
        if is_known or "would" in clause[chosen[-1].stop :]:
            return None, everything
        # A number that no option has: what is named beside it may be meant or not.
        foreign = [token for token in clause if token.isdecimal() and token not in options.known]
        if options.numeric and foreign:
            return "doubt", everything
        limited = not all(map(self._leaves_open, self.clauses[:place]))
        others = _others(clause, mentions, options)
        if agreed:
            return self._judge_one(clause, chosen, others, limited), agreed
        return self._judge_several(clause, chosen, others, limited)

    def _judge_several(
        self, clause: Sequence[str], chosen: Sequence[Mention], others: Sequence[str], limited: bool
    ) -> tuple[Kind | None, frozenset[int]]:
        """How a clause speaks of several options: the last one may be what is said of those before it."""
        options = self.options
        everything: frozenset[int] = frozenset().union(*(mention.options for mention in chosen))
        last = chosen[-1]
        between = clause[chosen[-2].stop : last.start]
        if _is_complement(between, options):  # the circle is the square
            identifies = not limited and self._identifies(clause, last)
            if identifies:
                return "identity", last.options
            return "statement", last.options
        decides_between = not (_DECIDES | _URGES).isdisjoint(between[-2:])
        if decides_between or ("," not in between and _is_answer(clause, last)):
            return "claim", last.options
        if others:
            return None, everything
        return "doubt", everything

    def _judge_one(
        self, clause: Sequence[str], chosen: Sequence[Mention], others: Sequence[str], limited: bool
    ) -> Kind | None:
        """How a clause speaks of one option, however often it names it."""
        options = self.options
        start, stop = chosen[0].start, chosen[-1].stop
        if _decides(clause, start, stop, others, options):
            return "claim"
        # Nothing but its name.
        if not others and not _is_unfinished(clause):
            return "bare"
        if _is_answer(clause, chosen[-1]):
            return "claim"
        # "Yes" and "no" within other words agree or object to something; they are no answers.
        if options.yes_no:
            return None
        if _is_complement(clause[:start], options):
            return self._stated(clause, chosen, limited, start)
        for mention in chosen:
            several_words = mention.stop - mention.start > 1
            if mention.full and several_words:
                return "statement"
        return None if chosen[0].label else "mention"

    def _stated(self, clause: Sequence[str], chosen: Sequence[Mention], limited: bool, start: int) -> Kind:
        """What a clause states that says what something is: *it is X*, *the bird is X*, *the wing is X*."""
        subject = clause[: _copula(clause, start)]
        if all(map(self.options.is_filler, subject)):
            return "fact"
        if limited or len(chosen) > 1:
            return "statement"
        return "identity" if self._identifies(clause, chosen[0]) else "statement"

    def _identifies(self, clause: Sequence[str], name: Mention) -> bool:
        """Whether a clause names what is looked for, in full and no more: *the bird is X*."""
        options = self.options
        copula = _copula(clause, name.start)
        gloss = clause.index("(", copula) if "(" in clause[copula:] else len(clause)
        if clause[copula] != "is":
            return False
        if not cues("copula").issuperset(clause[copula + 1 : name.start]):
            return False
        # Behind the name, up to a gloss in brackets, stands nothing that says more.
        if not all(map(options.is_filler, clause[name.stop : gloss])):
            return False
        if clause[-1] in _OPEN:
            return False
        return options.by_its_head(clause, name) and _is_looked_for(clause[:copula], options)

    def _leaves_open(self, clause: Sequence[str]) -> bool:
        """Whether a clause sets no condition for what follows: *after these results*, but not *in winter*."""
        return clause[0] in cues("introduces") or all(
            self.options.is_filler(token) or token in _DECIDES for token in clause
        )

    def _in_context(self, clause: Sequence[str], event: Event, before: Event | None, beside: bool) -> Kind:
        """What a clause says in its sentence; ``beside`` if it also names something that is not meant."""
        if self.asks:
            return "doubt"
        if before is not None and before.kind == "reject" and clause[-1] in ("well", "too"):
            return "reject"  # A is excluded, B as well
        if beside:
            return "mention"
        return event.kind


# --- parts of a clause -----------------------------------------------------------------------------------------------


def _stands_beside(clause: Sequence[str], mention: Mention) -> bool:
    """Whether something beside or about an option is meant, not the option."""
    before = [token for token in clause[: mention.start] if token not in ARTICLES]
    return before[-1:] != [] and before[-1] in cues("away")


def _parted(
    clause: Sequence[str], mentions: Sequence[Mention], options: Options
) -> tuple[list[Mention], list[Mention]]:
    """The mentions that a clause negates, and those that it does not.

    A negation holds for what follows it in a list, or for all that stands before it if nothing follows. Two are none.
    """
    negates = _NOT - (options.known if options.yes_no else frozenset())
    counts = []
    end = 0
    for mention in mentions:
        counts.append(sum(token in negates for token in clause[end : mention.start]))
        end = mention.stop
    behind = sum(token in negates for token in clause[end:])
    if not any(counts):
        negated = behind == 1
        return (list(mentions) if negated else []), ([] if behind else list(mentions))
    refused: list[Mention] = []
    chosen: list[Mention] = []
    holds = 0
    end = 0
    for mention, count in zip(mentions, counts, strict=True):
        gap = clause[end : mention.start]
        if count:
            holds = count
        elif not (_DECIDES | _URGES | {"is"}).isdisjoint(gap):
            holds = 0
        if holds == 0:
            chosen.append(mention)
        elif holds == 1:
            refused.append(mention)
        end = mention.stop
    taken = [mention.options for mention in refused]
    return refused, [mention for mention in chosen if mention.options not in taken]


def _others(clause: Sequence[str], mentions: Sequence[Mention], options: Options) -> list[str]:
    """The words of a clause that are no part of a mention and might say something."""
    inside = _taken_places(clause, mentions)
    others = []
    for place, token in enumerate(clause):
        if place in inside:
            continue
        says_nothing = options.is_filler(token) or options.is_vague(token)
        if not says_nothing:
            others.append(token)
    return others


def _taken_places(clause: Sequence[str], mentions: Sequence[Mention]) -> set[int]:
    """The places of a clause that belong to a mention, and that of the word that begins the clause."""
    inside: set[int] = set()
    if clause[0] in _BREAKS:
        inside.add(0)
    for mention in mentions:
        inside.update(range(mention.start, mention.stop))
        before = clause[mention.start - 1] if mention.start else ""
        # "not B", "rather than B": the word belongs to the option.
        if before in cues("away") or before in _NOT:
            inside.add(mention.start - 1)
        # A name in brackets stands behind the same name in another language.
        if before == "(" and not mention.label:
            inside |= {mention.start - 2, mention.start - 3}
    return inside


def _is_unfinished(clause: Sequence[str]) -> bool:
    """Whether a clause breaks off, or begins with a person: it was going to say something of what it names."""
    broken_off = clause[-1] in _OPEN and clause[-2:] != ["it", "is"]
    person = clause[0] in ("it", "he", "she") and "is" not in clause[:2]
    return broken_off or person


def _decides(clause: Sequence[str], start: int, stop: int, others: Sequence[str], options: Options) -> bool:
    """Whether a clause decides for what it names between two places."""
    if set(clause[stop:]) & _COMMENDS - options.known:
        return True
    # "I choose B" decides; "I think B is red" only says something of it.
    goes_on = not _IS.isdisjoint(clause[stop : stop + 1]) and not all(map(options.is_filler, clause[stop:]))
    before = set(clause[:start]) - options.known
    # "I'll pick up the pizza with label 0" names an action by its verb, whatever else it says.
    acts = any(clause[start] == phrase(text)[0] for text in options.texts)
    urges = not before.isdisjoint(_URGES) and (acts or not others)
    return not goes_on and (urges or not before.isdisjoint(_DECIDES))


def _is_answer(clause: Sequence[str], label: Mention) -> bool:
    """Whether a label stands where answers stand: at the end of a clause behind *is*, *so*, a colon and their like."""
    if not label.label or not set(clause[label.stop :]) <= {"(", ",", "here", "first", "now"}:
        return False
    before = clause[label.start - 1] if label.start else ""
    if before == ":" and label.start == 2:  # Action: B, but not Piece: B
        return clause[0] in cues("called") or clause[0] in ("so", "now", "next")
    return before in _IS or before in cues("called") or before in ("so", ":", ",", "that's", "it's", "to", "with")


def _copula(clause: Sequence[str], stop: int) -> int:
    """The place of the last *is* or *has* before another place."""
    return max(place for place, token in enumerate(clause[:stop]) if token in _IS)


def _is_complement(before: Sequence[str], options: Options) -> bool:
    """Whether only fillers stand between *is* and what follows these words."""
    for token in reversed(before):
        if token in _IS:
            return "there" not in before or options.numeric
        if not options.is_filler(token):
            return False
    return False


def _is_looked_for(subject: Sequence[str], options: Options) -> bool:
    """Whether a subject is what the question looks for: *the bird*, *the only one that fits*, *the best test*."""
    words = [token for token in subject if token not in ("so", ",", "can", "must")]
    if words[:1] != ["the"] or len(words) < 2 or not _NOT_LOOKED_FOR.isdisjoint(words):
        return False
    for token in words:
        if options.word(token) and not options.is_vague(token) and token not in options.heads:
            return False
    praise = words[2] if words[1] == "most" and len(words) > 2 else words[1]
    described = len(words) > 3 and words[2].endswith("ed")  # the ship described by the log
    return praise in _COMMENDS or praise == "only" or len(words) == 2 or described


# --- clauses of a sentence -------------------------------------------------------------------------------------------


def _clauses(sentence: Sequence[str], options: Options) -> Iterator[list[str]]:
    """The clauses: parted by words that begin one, and by commas and colons that part more than members of a list."""
    clause: list[str] = []
    for place, token in enumerate(sentence):
        if clause and _ends_before(clause, token, sentence[place + 1 :], options):
            yield clause
            clause = []
        if clause or token not in (",", ":"):
            clause.append(token)
    if clause:
        yield clause


def _ends_before(clause: Sequence[str], token: str, rest: Sequence[str], options: Options) -> bool:
    """Whether a clause ends where a token follows it, and after that the rest of the sentence."""
    if token == ":":
        # B? No: C
        if clause == ["no"]:
            return True
        names_one = bool(options.mentions(clause[-_LONGEST_CLAUSE:]))
        decides = not (_DECIDES | _URGES | _COMMENDS).isdisjoint(clause)
        return names_one and decides
    if _is_introduction(clause):
        return False
    if token == ",":
        return not _is_list(clause, rest, options)
    return token in _BREAKS and token not in options.known


def _is_introduction(clause: Sequence[str]) -> bool:
    """Whether a clause is but a word like *so* or *actually*, which belongs to the next."""
    return 0 < len(clause) < 3 and all(token in _BREAKS or token in _TURNS or token == "," for token in clause)


def _is_list(clause: Sequence[str], rest: Sequence[str], options: Options) -> bool:
    """Whether a comma stands in a list of options: *Malaria, Influenza and Pneumonia*."""
    item = _next_item(rest)
    if not clause or not item:
        return False
    # What stands on both sides of the comma must name options.
    if not _tells_apart(clause[-1], options):
        return False
    if not _tells_apart(item[0], options):
        return False
    if not _JOINS.isdisjoint(item):
        return True
    # Without "and", a list goes on with names and fillers only; a verb begins another clause.
    return all(_may_stand_in_list(token, options) for token in item)


def _may_stand_in_list(token: str, options: Options) -> bool:
    fills = options.is_filler(token) and token not in ("is", "it's")
    return fills or _tells_apart(token, options)


def _next_item(rest: Sequence[str]) -> list[str]:
    """What stands before the next comma, without *and*, *or* and articles at its beginning."""
    end = rest.index(",") if "," in rest else len(rest)
    item = list(rest[:end])
    while item and item[0] in (*_JOINS, *ARTICLES):
        item.pop(0)
    return item


def _tells_apart(token: str, options: Options) -> bool:
    """Whether a token is a label, or a word that not all options have."""
    if token in options.labels:
        return True
    word = options.word(token)
    return word is not None and word not in options.shared
