"""A golden text of what functions are called with, return, print and refuse."""

import re
from types import FunctionType

from cluster.errors import UserError
from evals.ledger.parts import LedgerChangedError
from tests.golden import check_golden


def rounded(value):
    """A value with its floats to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return tuple(map(rounded, value)) if isinstance(value, tuple) else value


class Said:
    """A text of what was called, came back and was printed."""

    def __init__(self, capsys, *places):
        self.lines, self._capsys, self._places = [], capsys, places

    def __call__(self, *words):
        out, err = self._capsys.readouterr()
        text = "".join([out, err, " ".join(map(str, words))])
        for number, place in enumerate(self._places):
            text = text.replace(str(place), f"PLACE{number or ''}")
        self.lines.append(re.sub(r" at 0x[0-9a-f]+|PosixPath", "", text).rstrip())

    def calls(self, name, result=None):
        """A function that notes how it was called."""

        def called(*given, **named):
            shown = [repr(sorted(each) if isinstance(each, set) else each) for each in given]
            shown += [f"{key}={value!r}" for key, value in named.items()]
            self(f"-> {name}({', '.join(shown)})")
            return result(*given, **named) if isinstance(result, FunctionType) else result

        return called

    def tried(self, what, function, *given, **named):
        """Note what a function returns, or refuses with."""
        try:
            found = function(*given, **named)
        except (UserError, LedgerChangedError, ValueError, TypeError, OSError) as error:
            found = f"{type(error).__name__}: {error}"
        self(f"{what}: {found}")
        return found

    def check(self, name, room="cluster"):
        self("")
        check_golden(f"{room}_{name}", "\n".join(filter(None, self.lines)))


class Thing:
    """Stands for anything: its name shows where it came from, and what it is called with is noted."""

    __iter__ = None
    """It stands for anything, and would have no end."""

    def __init__(self, said, name, /, **given):
        self.__dict__ |= {"_said": said, "_name": name, **given}

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        return Thing(self._said, f"{self._name}.{key}")

    def __getitem__(self, key):
        return Thing(self._said, f"{self._name}[{key!r}]")

    def __call__(self, *given, **named):
        return self._said.calls(self._name, Thing(self._said, f"{self._name}()"))(*given, **named)

    def __repr__(self):
        return self._name
