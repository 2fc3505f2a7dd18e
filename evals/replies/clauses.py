"""What the clauses of a reply say of options.

A reply is taken apart into sentences and clauses, in the small English of ``evals.replies.words``. Each clause says one
of these things of the options that it names:

- ``claim``: it decides for one (*I choose B*, *so B*, *B is best*, *the next move is B*)
- ``bare``: it names one and says nothing else
- ``fact``: *it is X*; ``identity``: *the bird is X*; ``statement``: something else is X, or X is a sentence that it says
- ``mention``: it says something else in which X occurs
- ``ending``: it says something in words that are not known, and ends with a label
- ``reject``: it negates it
- ``doubt``: it weighs, asks or supposes; without options, it doubts what was said before

or turns away from what was said before (``turn``), or limits it (``but``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from evals.replies.clause_parts import (
    copula_before,
    decides,
    ends_unknown,
    is_answer,
    is_complement,
    is_looked_for,
    is_unfinished,
    others_of,
    parted,
    stands_beside,
)
from evals.replies.options import Mention, Options
from evals.replies.sentences import clauses_of, sentences_of
from evals.replies.words import cues

Kind = Literal["claim", "bare", "fact", "identity", "statement", "mention", "ending", "reject", "doubt", "turn", "but"]
_NOT: Final = cues("negates")
_WEIGHS: Final = cues("weighs")
_TURNS: Final = cues("turns")
_FIRST_STEP: Final = frozenset({"first", "now", "next"})
_LATER: Final = cues("later")
_SAYS_NOTHING: Final = cues("begins an aside")
_DECIDES: Final = cues("decides")
_URGES: Final = cues("urges")
_COMMENDS: Final = cues("commends")
_KNOWN: Final = cues("known") | cues("parts")
_OPEN: Final = cues("open")
_POINTS: Final = cues("points")
_LEFT: Final = cues("left")


@dataclass(frozen=True)
class Event:
    """What a clause says of options; a turn, and a doubt of everything, name none."""

    kind: Kind
    options: frozenset[int]
    sentence: int


def events_of(text: str, options: Options) -> Iterator[Event]:
    """What a reply says of options, clause by clause."""
    for number, (sentence, asks) in enumerate(sentences_of(text)):
        events = list(_Sentence(sentence, options, number, asks).events())
        yield from events
        named = any(event.options for event in events if event.kind != "ending")
        if not named and _doubts_unnamed(sentence, options):
            yield Event("doubt", frozenset(), number)


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
    return any(_points_elsewhere(clause, options) for clause in clauses_of(sentence, options))


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
        self.clauses = list(clauses_of(tokens, options))
        self.explains = ":" in tokens
        self.supposes = "if" in tokens and not {"would", "i'd", "could"}.isdisjoint(tokens)
        self.before: Event | None = None
        """The latest event that names options."""
        self.has_first_step = False
        """Whether a clause so far said what comes first."""

    def events(self) -> Iterator[Event]:
        """What the clauses say, in order."""
        for place, clause in enumerate(self.clauses):
            yield from self._turns(place, clause)
            mentions = self.options.mentions(clause)
            meant = [mention for mention in mentions if not stands_beside(clause, mention)]
            refused, chosen = parted(clause, meant, self.options)
            for mention in refused:
                self.before = Event("reject", mention.options, self.number)
                yield self.before
            # Nothing behind an "if" is said for certain.
            if clause[0] == "if":
                return
            if chosen and clause[0] not in _SAYS_NOTHING:
                yield from self._choice(place, clause, chosen, mentions)

    def _choice(
        self, place: int, clause: Sequence[str], chosen: Sequence[Mention], mentions: Sequence[Mention]
    ) -> Iterator[Event]:
        """What a clause says of the options that it does not negate, if anything."""
        kind, named = self._judge(place, clause, chosen, mentions)
        is_later = _is_later(place, clause)
        # What comes after a first step is not chosen now; without one, it is not clear which is.
        is_second_step = is_later and self.has_first_step
        if kind is not None and not is_second_step:
            kind = self._in_context(clause, kind, mentions)
            told: Kind = "doubt" if is_later else kind
            self.before = Event(told, named, self.number)
            yield self.before
        if kind == "claim" or not _FIRST_STEP.isdisjoint(clause):
            self.has_first_step = True

    def _turns(self, place: int, clause: Sequence[str]) -> Iterator[Event]:
        """How a clause bears on what stands before it, whatever it names."""
        nothing: frozenset[int] = frozenset()
        objects = clause[0] == "no" and not self.options.yes_no
        if objects or not _TURNS.isdisjoint(clause):
            yield Event("turn", nothing, self.number)
        # At the beginning of a sentence "but" turns away from the one before; within a sentence it limits.
        if clause[0] == "but":
            yield Event("but" if place else "turn", nothing, self.number)
        if self._sets_condition(clause):
            yield Event("doubt", nothing, self.number)

    def _sets_condition(self, clause: Sequence[str]) -> bool:
        """Whether what was said before holds only if a clause does: *The bird is X when ...*, *X, if ...*."""
        if clause[0] == "if" and self.supposes:
            return True
        if clause[0] not in ("if", "when") or self.before is None:
            return False
        if self.before.kind == "bare":
            return not self.explains  # "Spirometry: if it is low, ..." says what the test is for
        return self.before.kind in ("identity", "claim")

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
        others = others_of(clause, mentions, options)
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
        # The circle is the square.
        if is_complement(between, options):
            identifies = not limited and self._identifies(clause, last)
            return "identity" if identifies else "statement", last.options
        decides_between = not (_DECIDES | _URGES).isdisjoint(between[-2:])
        if decides_between or ("," not in between and is_answer(clause, last)):
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
        if decides(clause, start, stop, others, options):
            return "claim"
        # Nothing but its name.
        if not others and not is_unfinished(clause):
            return "bare"
        if is_answer(clause, chosen[-1]):
            return "claim"
        # "Yes" and "no" within other words agree or object to something; they are no answers.
        if options.yes_no:
            return None
        if is_complement(clause[:start], options):
            return self._stated(clause, chosen, limited, start)
        for mention in chosen:
            several_words = mention.stop - mention.start > 1
            if mention.full and several_words:
                return "statement"
        if not chosen[0].label:
            return "mention"
        return "ending" if ends_unknown(clause, chosen[-1], options) else None

    def _stated(self, clause: Sequence[str], chosen: Sequence[Mention], limited: bool, start: int) -> Kind:
        """What a clause states that says what something is: *it is X*, *the bird is X*, *the wing is X*."""
        subject = clause[: copula_before(clause, start)]
        if all(map(self.options.is_filler, subject)):
            return "fact"
        if limited or len(chosen) > 1:
            return "statement"
        return "identity" if self._identifies(clause, chosen[0]) else "statement"

    def _identifies(self, clause: Sequence[str], name: Mention) -> bool:
        """Whether a clause names what is looked for, in full and no more: *the bird is X*."""
        options = self.options
        copula = copula_before(clause, name.start)
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
        return options.by_its_head(clause, name) and is_looked_for(clause[:copula], options)

    def _leaves_open(self, clause: Sequence[str]) -> bool:
        """Whether a clause sets no condition for what follows: *after these results*, but not *in winter*."""
        if clause[0] in cues("introduces"):
            return True
        return all(self.options.is_filler(token) or token in _DECIDES for token in clause)

    def _in_context(self, clause: Sequence[str], kind: Kind, mentions: Sequence[Mention]) -> Kind:
        """What a clause says in its sentence, where it may also mention what is not meant."""
        if self.asks:
            return "doubt"
        # A is excluded, B as well.
        follows_reject = self.before is not None and self.before.kind == "reject"
        if follows_reject and clause[-1] in ("well", "too"):
            return "reject"
        if any(_is_aside(clause, mention) for mention in mentions):
            return "mention"
        return kind


def _is_later(place: int, clause: Sequence[str]) -> bool:
    """Whether a clause is about what comes after something else."""
    begins_later = place > 0 or clause[0] == "afterwards"
    return begins_later and not _LATER.isdisjoint(clause[:3])


def _is_aside(clause: Sequence[str], mention: Mention) -> bool:
    """Whether a clause speaks of something about an option, *the beak of B*; *A over B* says nothing else of A."""
    is_compared = clause[mention.start - 1] in ("over", "beats")
    return stands_beside(clause, mention) and not is_compared
