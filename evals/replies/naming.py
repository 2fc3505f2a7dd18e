"""Which options a text names by their words, and where: ``go right`` for *move right*, ``Door 2``, ``en haut à gauche``.

Texts are made words of the small English of ``evals.replies.reply_words``; a word of five letters or more may be
misspelled. A run of words names the options that have all of them, so *sparrow* may name two.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from evals.replies.reply_words import ARTICLES, content, cues, lexicon, phrase, singular, stem

_ALIKE = 0.82
"""How like a word of an option (difflib's ratio) a misspelled word of five letters or more must be."""
_MOVE = frozenset({"move"})
"""What a direction is called by besides, and may do without."""


@dataclass(frozen=True)
class Mention:
    """Words that name options."""

    options: frozenset[int]
    start: int
    stop: int
    """Places of the words among the tokens."""
    whole: bool = False
    """Whether all words of a statement are there."""


_WEAK: Final = cues("weak")
"""Words that name no option by themselves, unless it is called by nothing else."""
PLACES: Final = cues("places")
"""Words of which a text may not have one more than the option that it names."""
AWAY: Final = cues("away")
"""Words right before an option that is not meant itself."""
_STATES: Final = cues("states") | PLACES
"""Words of an option that is a sentence or a place."""
_EMPTY = re.compile(r"[\u3040-\u309f]+|[.!?;:,(\n]")
"""Japanese endings, punctuation."""
_ALTERNATIVES = (("up", "top", "above"), ("down", "bottom", "below"))
"""Words for which a text may have another of the same row, if the options have only one."""


class Options:
    """What can be named.

    Attributes:
        texts: What the options say.
        content: For each option the words that it is called by.
        known: All these words.
        shared: Those that all options have; they name none.
        statements: Those options that are sentences, or places; to say one is to answer.
        sole: Words that are all that an option is called by.
        heads: The last words of longer names, which say what they are names of: *ship*.
        numbered: Whether numbers are among the words.
        numeric: Whether most options differ in their numbers only.
    """

    def __init__(self, options: Sequence[str], labels: Sequence[str] = ()) -> None:
        self.texts = tuple(options)
        self.content = [content(option) for option in options]
        self.labels = {f"§{label.lower()}": index for index, label in enumerate(labels) if label.isalpha()}
        self.known = frozenset().union(*self.content)
        self.shared = frozenset.intersection(*self.content) if self.content else frozenset()
        self.lettered = any(word.startswith("§") for word in self.known)
        self.numbered = any(word.isdecimal() for word in self.known)
        self.statements = frozenset(
            index for index, option in enumerate(options) if not _STATES.isdisjoint(map(singular, phrase(option)))
        )
        self.sole = frozenset(next(iter(words)) for words in self.content if len(words) == 1)
        self.numeric = 2 * sum(all(word.isdecimal() for word in words - self.shared) for words in self.content) > len(
            options
        )
        self.heads = frozenset(words[-1] for option in options if len(words := phrase(option)) > 1)
        self.phrases = sorted(
            ((words, index) for index, option in enumerate(options) if len(words := phrase(option)) > 1),
            key=lambda item: -len(item[0]),
        )
        initials = ["".join(word[0] for word in phrase(option)) for option in options]
        self.initials = {
            word: index for index, word in enumerate(initials) if len(word) > 2 and initials.count(word) == 1
        }
        self._words: dict[str, str | None] = {}

    def word(self, token: str) -> str | None:
        """The word of an option that a token is, perhaps misspelled."""
        if token not in self._words:
            self._words[token] = self._word(singular(token))
        return self._words[token]

    def _word(self, token: str) -> str | None:
        if token in self.known:
            return token
        for row in _ALTERNATIVES:
            if token in row and len(other := self.known.intersection(row)) == 1:
                return next(iter(other))
        if token in _grammar():
            return None
        if len(alike := [word for word in self.known if stem(word) == stem(token)]) == 1:
            return alike[0]
        if len(token) < 5 or not token.isalpha():
            return None
        close = difflib.get_close_matches(token, self.known, 2, _ALIKE)
        close = [word for word in close if not (word.endswith(token) or token.endswith(word))]
        return close[0] if len(close) == 1 else None

    def is_filler(self, token: str) -> bool:
        """Whether a token says nothing about any option."""
        words = lexicon()
        if token.isdecimal():
            return not self.numbered
        noun = singular(token)
        return token in words.fillers or noun in words.nouns or noun in self.shared or bool(_EMPTY.fullmatch(token))

    def is_vague(self, token: str) -> bool:
        """Whether a token is a word of an option, but names none by itself."""
        return (word := self.word(token)) is not None and word in _WEAK - PLACES

    def masked(self, tokens: Sequence[str]) -> list[str]:
        """The tokens with ``¤3`` in place of all words of option 3 in their order."""
        text = list(tokens)
        for words, index in self.phrases:
            for place in range(len(text) - len(words), -1, -1):
                if stop := _matched(words, text, place):
                    text[place:stop] = [f"¤{index}"]
        return text

    def mentions(self, tokens: Sequence[str]) -> list[Mention]:
        """The runs of words in a masked clause that name options, in reading order."""
        runs = _Runs(self)
        for place, token in enumerate(tokens):
            word = self._own_word(tokens, place, runs)
            if word is not None:
                if not self._is_ordinal(word, tokens, place):
                    runs.add(word, place)
            elif (index := self._sign(tokens, place)) is not None:
                runs.close()
                runs.found.append(Mention(frozenset({index}), place, place + 1, index in self.statements))
            elif not self.is_filler(token):
                runs.close()
        runs.close()
        return _joined(runs.found, tokens)

    def in_full(self, tokens: Sequence[str], mention: Mention) -> bool:
        """Whether a mention names one option in full, or by its last word at least: not *red* for a red kite."""
        said = tokens[mention.start : mention.stop]
        words = [self.word(token) for token in said]
        return len(mention.options) == 1 and all(
            f"¤{index}" in said or singular(phrase(self.texts[index])[-1]) in words for index in mention.options
        )

    def _own_word(self, tokens: Sequence[str], place: int, runs: _Runs) -> str | None:
        """The word of an option at a place; a letter is one only behind a word that it may go with: *slot B*."""
        if tokens[place].startswith("§") and not (self.lettered and runs.said):
            return None
        return self.word(tokens[place])

    def _is_ordinal(self, word: str, tokens: Sequence[str], place: int) -> bool:
        """Whether a number may be an option's place, and not what it says: *option 4*."""
        behind_noun = place and tokens[place - 1] in ("option", "choice")
        return bool(self.numeric and word.isdecimal() and behind_noun and self._index(word) is None)

    def _sign(self, tokens: Sequence[str], place: int) -> int | None:
        """The index of the option that a token means as a whole: as a mask, by its label, or by its initials."""
        token = tokens[place]
        if token.startswith("¤"):
            return int(token[1:])
        if token in self.labels and self.is_label(tokens, place):
            return self.labels[token]
        return self.initials.get(token)

    def is_label(self, tokens: Sequence[str], place: int) -> bool:
        """Whether a letter names an option, and not something else: *piece A*."""
        before = tokens[place - 1] if place else ""
        if self.lettered:
            return len(tokens) == 1 or before in ("option", "choice", "action", "answer", "letter", "choose", "(")
        return before not in lexicon().nouns and self.word(before) is None

    def _index(self, number: str) -> int | None:
        """The index of *option 4*, if it is the fourth and also says 4."""
        index = int(number) - 1
        return index if index in range(len(self.content)) and number in self.content[index] else None

    def fitting(self, said: Sequence[str]) -> list[int]:
        """The options that have all the words said."""
        return [index for index, words in enumerate(self.content) if words.issuperset(said)]

    def named(self, said: Sequence[str]) -> frozenset[int]:
        """The options that have all the words said; only the one that has no others, if there is one."""
        meant = frozenset(said)
        if meant <= self.shared | lexicon().nouns:
            return frozenset()
        exact = [index for index, words in enumerate(self.content) if words == meant]
        if exact:
            return frozenset(exact)
        noun = any(word.isalpha() and word not in _WEAK - {"label"} for word in meant)
        return frozenset(index for index in self.fitting(said) if self._enough(meant - self.shared, index, noun))

    def _enough(self, said: frozenset[str], index: int, noun: bool) -> bool:
        """Whether so many of an option's own words name it; ``noun`` if one says what a number or letter numbers."""
        own = self.content[index] - self.shared - _MOVE
        vague = all(word in _WEAK or ((word.startswith("§") or word.isdecimal()) and not noun) for word in said)
        unlike = own.difference(*(words for other, words in enumerate(self.content) if other != index))
        return said >= own or (not vague and (3 * len(said) >= len(own) or said >= unlike > frozenset()))


@dataclass
class _Runs:
    """The runs of words found so far in a clause, and the one that goes on."""

    options: Options
    found: list[Mention] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """The words of the run that goes on."""
    start: int = 0
    stop: int = 0

    def add(self, word: str, place: int) -> None:
        """Go on with a word, in a new run if no option has it besides the others."""
        if self.said and not self.options.fitting([*self.said, word]):
            self.close()
        if not self.said:
            self.start = place
        self.stop = place + 1
        self.said.append(word)

    def close(self) -> None:
        """End the run; it is a mention if it names options."""
        options = self.options
        if self.said and (named := options.named(self.said)):
            whole = len(named) == 1 and options.statements >= named and options.content[min(named)] <= {*self.said}
            self.found.append(Mention(named, self.start, self.stop, whole))
        self.said = []


@functools.cache
def _grammar() -> frozenset[str]:
    """Words that a reply is made of whatever it is about; they are no misspelled words of options."""
    return lexicon().fillers.union(*(cues(kind) for kind in ("negates", "weighs", "turns", "begins a clause", "urges")))


_PARTING = (AWAY - {"of"}) | {"not"}
"""Words that part what is named on both sides."""


def _matched(phrase: Sequence[str], text: Sequence[str], start: int) -> int | None:
    """Where the words of an option end that begin at a place, whatever articles and *is* stand among them."""
    stop = start
    for word in phrase:
        while stop > start and stop < len(text) and text[stop] != word and text[stop] in ARTICLES | {"is"}:
            stop += 1
        if stop >= len(text) or text[stop] != word:
            return None
        stop += 1
    return stop


def _joined(found: Sequence[Mention], tokens: Sequence[str]) -> list[Mention]:
    """The mentions, those of one option side by side as one: *the crowbar (slot 2)*."""
    joined: list[Mention] = []
    for mention in found:
        both = joined[-1].options & mention.options if joined else frozenset()
        between = tokens[joined[-1].stop : mention.start] if joined else ()
        if len(both) == 1 and len(between) < 3 and _PARTING.isdisjoint(between):
            joined[-1] = Mention(both, joined[-1].start, mention.stop, joined[-1].whole or mention.whole)
        else:
            joined.append(mention)
    return joined
