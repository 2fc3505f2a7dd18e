"""Which options a clause names, and where: by label, in full, or by words that no other option has.

Texts are made words of the small English of ``evals.replies.words``. A run of words names the options that have all of
them, so *sparrow* may name two; a word of five letters or more may be misspelled.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from evals.replies.words import PUNCTUATION, content, cues, fillers, nouns, phrase, singular

_ALIKE: Final = 0.8
"""How like a word of an option (difflib's ratio) a misspelled word must be."""
_SHORTEST_MISSPELLED: Final = 5
_WEAK: Final = cues("weak")
"""Words that name no option by themselves."""
PLACES: Final = cues("places")
_CALLED: Final = cues("called")
"""Words right before a label: *option B*."""
_BEFORE_LABEL: Final = cues("called") | cues("decides") | cues("urges") | {"is", ":", "("}
_PARTS_NAMES: Final = cues("away") - {"of"} | {"not", "or", "and", "so", ":"}
_WIDEST_GAP: Final = 2
"""Words between two names of one option: *the crowbar (slot 2)*."""


@dataclass(frozen=True)
class Mention:
    """Words that name options.

    Attributes:
        options: Those that the words fit.
        start: Place of the first word among the tokens.
        stop: Place behind the last.
        full: Whether the words are all that an option says.
        label: Whether they are an option's label.
    """

    options: frozenset[int]
    start: int
    stop: int
    full: bool = False
    label: bool = False


class Options:
    """What can be named.

    Attributes:
        texts: What the options say.
        content: For each option the words that tell what it is.
        known: All these words.
        shared: Those that all options have; they name none.
        numeric: Whether options differ in their numbers.
        heads: The last words of names of several words, which say what kind of thing they name: *ship*.
        yes_no: Whether the options are yes and no.
    """

    def __init__(self, texts: Sequence[str], labels: Sequence[str] = (), added_nouns: Sequence[str] = ()) -> None:
        """Take the options apart.

        Args:
            texts: What they say.
            labels: What they are called.
            added_nouns: Words that tell nothing about any option, besides those of ``words.txt``.
        """
        self.texts = tuple(texts)
        if _are_numbers(labels):
            signs = list(labels)
            # Options that say no more than their numbers are called by these alone.
            called = frozenset(labels)
        else:
            signs = [f"§{label.lower()}" for label in labels]
            called = frozenset()
        self.labels = {sign: index for index, sign in enumerate(signs)}
        self.content = [frozenset[str]() if text in called else content(text) for text in texts]
        self.known: frozenset[str] = frozenset().union(*self.content)
        self.shared = frozenset[str]()
        if self.content:
            self.shared = frozenset.intersection(*self.content)
        self.added_nouns = _singulars(added_nouns) - self.known
        self.nouns = nouns() | self.added_nouns
        self.lettered = any(word.startswith("§") for word in self.known)
        self.numbered = any(map(str.isdecimal, self.known))
        numbers = [words for words in self.content if _are_numbers(words - self.shared)]
        self.numeric = 2 * len(numbers) > len(self.content)
        phrases = [phrase(text) for text in texts]
        several_words = [(words, index) for index, words in enumerate(phrases) if len(words) > 1]
        self.heads = frozenset(words[-1] for words, _ in several_words)
        self.yes_no = self.known == {"yes", "no"}
        # The longest first: a shorter name may be part of a longer one.
        self._phrases = sorted(several_words, key=lambda entry: -len(entry[0]))
        self._initials = _by_initials(phrases)
        self._words: dict[str, str | None] = {}

    # --- single words ------------------------------------------------------------------------------------------------

    def word(self, token: str) -> str | None:
        """The word of an option that a token is, perhaps in another form or misspelled."""
        if token not in self._words:
            self._words[token] = self._find_word(singular(token))
        return self._words[token]

    def _find_word(self, token: str) -> str | None:
        if token in self.known:
            return token
        if token in _common_words():
            return None
        if len(token) < _SHORTEST_MISSPELLED:
            return None
        if not token.isalpha():
            return None
        close = []
        for word in difflib.get_close_matches(token, self.known, 2, _ALIKE):
            # symmetric is no misspelled asymmetric
            is_end_of_other = word.endswith(token) or token.endswith(word)
            if not is_end_of_other:
                close.append(word)
        # What is like two words may be either.
        if len(close) != 1:
            return None
        return close[0]

    def is_filler(self, token: str) -> bool:
        """Whether a token says nothing about any option."""
        if token.isdecimal():
            return not self.numbered
        noun = singular(token)
        return token in PUNCTUATION or token in fillers() or noun in self.nouns or noun in self.shared

    def is_vague(self, token: str) -> bool:
        """Whether a token is a word of an option, but names none by itself."""
        word = self.word(token)
        return word is not None and word in _WEAK - PLACES

    # --- mentions ----------------------------------------------------------------------------------------------------

    def mentions(self, tokens: Sequence[str]) -> list[Mention]:
        """The words of a clause that name options, in reading order."""
        found = self._in_full(tokens)
        taken: set[int] = set()
        for mention in found:
            taken.update(range(mention.start, mention.stop))
        for place, token in enumerate(tokens):
            if place in taken:
                continue
            option = self.labels.get(token)
            if option is not None and self.is_label(tokens, place):
                found.append(Mention(frozenset({option}), place, place + 1, label=True))
                taken.add(place)
            elif token in self._initials:
                found.append(Mention(frozenset({self._initials[token]}), place, place + 1))
                taken.add(place)
        found += [mention for mention in self._by_words(tokens, taken) if not self._has_other_number(tokens, mention)]
        found.sort(key=lambda mention: mention.start)
        return _joined(found, tokens)

    def _in_full(self, tokens: Sequence[str]) -> list[Mention]:
        """Where all words of an option stand in their order, the longest options first."""
        found: list[Mention] = []
        free = [True] * len(tokens)
        for words, index in self._phrases:
            for start in range(len(tokens)):
                stop = _match(words, tokens, start) if free[start] else None
                if stop is not None and all(free[start:stop]):
                    found.append(Mention(frozenset({index}), start, stop, full=True))
                    free[start:stop] = [False] * (stop - start)
        return found

    def is_label(self, tokens: Sequence[str], place: int) -> bool:
        """Whether a letter or number names an option, and not something else: *piece A*, *3 objects*."""
        before, after = _neighbors(tokens, place)
        if before in _CALLED:
            return True
        if tokens[place].isdecimal():
            # "Not 3" may mean the option that says 3, not the third.
            says_nothing = fillers() if tokens[place] in self.known else fillers() | cues("judged")
            return _counts_nothing(tokens, place, before, after, says_nothing)
        # Where options themselves speak of parts by letters, a letter beside such a word is a part: slot B, B to II.
        if self.lettered and _is_part(before, after):
            return False
        if before in self.nouns:
            return False
        if before in ("so", "is"):
            return True
        return self.word(before) is None

    def _by_words(self, tokens: Sequence[str], taken: set[int]) -> list[Mention]:
        """The runs of words, with fillers among them, that name options together."""
        found: list[Mention] = []
        run: list[tuple[int, str]] = []
        for place, token in enumerate(tokens):
            word = None
            if place not in taken:
                word = self._word_at(tokens, place, within=bool(run))
                # Fillers may stand within a name: the crowbar in slot 2.
                if word is None and self.is_filler(token):
                    continue
            # All else ends it, as does a word that no option has beside the others.
            if word is None or not self._continues(run, word):
                found += self._named_by(run)
                run = []
            if word is not None:
                run.append((place, word))
        return [*found, *self._named_by(run)]

    def _continues(self, run: Sequence[tuple[int, str]], word: str) -> bool:
        """Whether an option has a word beside those of a run; any word may begin one."""
        said = [word for _, word in run]
        return not run or bool(self._fitting([*said, word]))

    def _word_at(self, tokens: Sequence[str], place: int, within: bool) -> str | None:
        """The word of an option that stands at a place, alone or ``within`` a run of others."""
        word = self.word(tokens[place])
        if word is None:
            return None
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        # A letter belongs to the word before it, or to where it goes: slot B, B to II.
        if word.startswith("§") and not within and following not in cues("after parts"):
            return None
        before = tokens[place - 1] if place else ""
        return None if self._may_be_a_place(word, before) else word

    def _has_other_number(self, tokens: Sequence[str], mention: Mention) -> bool:
        """Whether part of a name stands beside a number that is not the name's own: *Type 1 Diabetes* for *Type 2 Diabetes*."""
        if mention.full or len(mention.options) != 1:
            return False
        own = set(filter(str.isdecimal, self.content[min(mention.options)]))
        said = set(filter(str.isdecimal, tokens[max(0, mention.start - 1) : mention.stop + 1]))
        return bool(own) and bool(said) and own.isdisjoint(said)

    def _named_by(self, run: Sequence[tuple[int, str]]) -> list[Mention]:
        """The mention that words make at their places; none if they are too few to name an option."""
        said = [word for _, word in run]
        options = self.named(said)
        if not options:
            return []
        full = len(options) == 1 and self.content[min(options)].issubset(said)
        return [Mention(options, run[0][0], run[-1][0] + 1, full)]

    def _may_be_a_place(self, word: str, before: str) -> bool:
        """Whether *option 4* may mean the fourth option, and not the one that says 4."""
        if not self.numeric or not word.isdecimal() or before not in ("option", "choice"):
            return False
        return int(word) > len(self.content) or word not in self.content[int(word) - 1]

    def _fitting(self, said: Sequence[str]) -> list[int]:
        return [index for index, words in enumerate(self.content) if words.issuperset(said)]

    def named(self, said: Sequence[str]) -> frozenset[int]:
        """The options that have all the words said, if these are enough to name one; one that has no other words first."""
        meant = frozenset(said)
        if meant <= self.shared | nouns():
            return frozenset()
        exact = [index for index, words in enumerate(self.content) if words == meant]
        return frozenset(exact or (index for index in self._fitting(said) if self._enough(meant, index)))

    def _enough(self, said: frozenset[str], index: int) -> bool:
        """Whether words name an option: all of its own, or those that no other has, or a third that are not weak."""
        own = self.content[index] - self.shared - {"move"}
        said_own = said - self.shared
        if said_own >= own:
            return True
        if not self._tells(said):
            return False
        others = (words for other, words in enumerate(self.content) if other != index)
        unique = own.difference(*others)
        if unique and said_own >= unique:
            return True
        return 3 * len(said_own) >= len(own)

    def _tells(self, said: frozenset[str]) -> bool:
        """Whether one of some words is neither weak nor a word of all options."""
        telling = said - self.shared - _WEAK
        # Numbers and letters tell nothing without a noun that they belong to.
        nouns_said = said - (_WEAK - cues("numbered"))
        if any(map(str.isalpha, nouns_said)):
            return bool(telling)
        return any(map(str.isalpha, telling))

    def by_its_head(self, tokens: Sequence[str], mention: Mention) -> bool:
        """Whether a mention names one option in full or by its last word: *kite* for a red kite, not *red*."""
        if len(mention.options) != 1:
            return False
        words = [self.word(token) for token in tokens[mention.start : mention.stop]]
        return mention.full or singular(phrase(self.texts[min(mention.options)])[-1]) in words


def _are_numbers(words: Collection[str]) -> bool:
    return bool(words) and all(map(str.isdecimal, words))


def _singulars(texts: Sequence[str]) -> set[str]:
    """The words of some texts, without the s of a plural."""
    found: set[str] = set()
    for text in texts:
        found.update(map(singular, phrase(text)))
    return found


def _by_initials(phrases: Sequence[Sequence[str]]) -> dict[str, int]:
    """Options by the first letters of their words, where these are three or more and no other option has the same."""
    initials = ["".join(word[0] for word in words) for words in phrases]
    return {
        letters: index for index, letters in enumerate(initials) if len(letters) > 2 and initials.count(letters) == 1
    }


@functools.cache
def _common_words() -> frozenset[str]:
    """Words that a reply is made of whatever it is about; they are no misspelled words of options."""
    return fillers().union(*(cues(kind) for kind in ("negates", "weighs", "turns", "begins a clause", "urges")))


def _match(words: Sequence[str], tokens: Sequence[str], start: int) -> int | None:
    """Where an option's words end that begin at a place, whatever articles stand among them."""
    stop = start
    for word in words:
        while stop > start and stop < len(tokens) and tokens[stop] != word and tokens[stop] in ("a", "an", "the", "is"):
            stop += 1
        if stop >= len(tokens) or tokens[stop] != word:
            return None
        stop += 1
    return stop


def _neighbors(tokens: Sequence[str], place: int) -> tuple[str, str]:
    """The tokens before and after a place; at an end there is none, which is empty."""
    before = tokens[place - 1] if place else ""
    after = tokens[place + 1] if place + 1 < len(tokens) else ""
    return before, after


def _is_part(before: str, after: str) -> bool:
    """Whether a letter between two tokens is called a part."""
    return before in cues("before parts") or after in cues("after parts")


def _counts_nothing(tokens: Sequence[str], place: int, before: str, after: str, says_nothing: Collection[str]) -> bool:
    """Whether a number names an option: it ends what a word like *option* begins, or all other words say nothing."""
    ends = after in ("", ",") or after in cues("commends")
    begins = not before or before in _BEFORE_LABEL
    if ends and begins:
        return True
    others = (*tokens[:place], *tokens[place + 1 :])
    return all(token in says_nothing or token in PUNCTUATION for token in others)


def _joined(found: Sequence[Mention], tokens: Sequence[str]) -> list[Mention]:
    """The mentions, those of one option side by side as one: *the crowbar (slot 2)*."""
    joined: list[Mention] = []
    for mention in found:
        agreed = frozenset[int]()
        if joined:
            agreed = _agreed(joined[-1], mention, tokens)
        if len(agreed) != 1:
            joined.append(mention)
            continue
        last = joined.pop()
        both = Mention(
            options=agreed,
            start=last.start,
            stop=mention.stop,
            full=last.full or mention.full,
            label=last.label and mention.label,
        )
        joined.append(both)
    return joined


def _agreed(one: Mention, other: Mention, tokens: Sequence[str]) -> frozenset[int]:
    """The options that two mentions side by side both fit; none if something parts them."""
    between = tokens[one.stop : other.start]
    if len(between) > _WIDEST_GAP or not _PARTS_NAMES.isdisjoint(between):
        return frozenset()
    return one.options & other.options
