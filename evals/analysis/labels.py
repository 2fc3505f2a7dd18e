"""What runs are called: by their given name, else by what tells them apart. Folders and their hashes stay in paths."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from evals.analysis.differences import flat_settings

NOT_OF_A_LABEL: Final = frozenset(
    {
        *("run_dir", "cluster", "tracker", "baselines", "retry_failed", "strict", "shard", "order", "preregistration"),
        *("name", "suite.name", "model.name", "model.replica"),
    }
)
"""Settings that change no answer, or that a player's name tells already."""
LONGEST: Final = 32
"""Characters of a label that is made of settings."""


def run_labels(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Short, different labels of runs that one player played.

    A run's own name (``name=``) counts; the others are told by the fewest settings that differ, and are called by their
    folders where no two settings tell all of them apart.

    >>> run_labels({"kumo-1": {"suite": {"book": "prose", "seed": 1}}, "kumo-2": {"suite": {"book": "table", "seed": 1}}})
    {'kumo-1': 'prose', 'kumo-2': 'table'}
    >>> run_labels({"kumo-1": {"suite": {"shots": 0}}, "kumo-2": {"suite": {"shots": 4}, "name": "with examples"}})
    {'kumo-1': '0 shots', 'kumo-2': 'with examples'}

    Args:
        settings: The configuration of each run, by its folder.
    """
    told = _told_apart(settings)
    labels = {folder: str(each.get("name") or told[folder]) for folder, each in settings.items()}
    return _different(labels)


def run_names(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What runs are called in lists and titles, where no player's name stands beside them.

    A run's own name counts; the others are called by their suite (where there is one run, or several suites), their model,
    and what tells those of one suite and model apart.

    >>> kumo, kidgym = ({"suite": {"name": name}, "model": {"name": "m"}} for name in ("kumo", "kidgym"))
    >>> run_names({"kumo-m-8f3a": kumo, "kidgym-m-77c1": kidgym})
    {'kumo-m-8f3a': 'kumo, m', 'kidgym-m-77c1': 'kidgym, m'}

    Args:
        settings: The configuration of each run, by its folder.
    """
    groups = _by_suite_and_model(settings)
    suites = {suite for suite, _ in groups}
    with_suite = len(settings) == 1 or len(suites) > 1
    described: dict[str, str] = {}
    for (suite, model), alike in groups.items():
        words = [model]
        if with_suite:
            words = [suite, model]
        described |= _described(alike, words)
    labels: dict[str, str] = {}
    for folder, each in settings.items():
        labels[folder] = str(each.get("name") or described[folder] or folder)
    return _different(labels)


def _by_suite_and_model(
    settings: Mapping[str, Mapping[str, Any]],
) -> Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]:
    groups: defaultdict[tuple[str, str], dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for folder, each in settings.items():
        groups[_name_in(each, "suite"), _name_in(each, "model")][folder] = each
    return groups


def _described(alike: Mapping[str, Mapping[str, Any]], words: Sequence[str]) -> dict[str, str]:
    """Runs of one suite and model in some words; several also in what tells their settings apart."""
    own = run_labels(alike)
    described: dict[str, str] = {}
    for folder in alike:
        parts = [*words]
        if len(alike) > 1:
            parts.append(own[folder])
        described[folder] = ", ".join(filter(None, parts))
    return described


def _name_in(settings: Mapping[str, Any], section: str) -> str:
    found = settings.get(section)
    return str(found.get("name") or found.get("type") or "") if isinstance(found, Mapping) else ""


def unused(name: str, folder: str, taken: Collection[str]) -> str:
    """A name, with its run's folder behind it where it is taken; also with a number where that is taken, too.

    >>> unused("m (table)", "kumo-1", {"m (table)", "m (prose)"})
    'm (table) (kumo-1)'
    """
    if name not in taken:
        return name
    longer = f"{name} ({folder})"
    numbered = (f"{name} ({folder}, {number})" for number in itertools.count(2))
    return next(each for each in itertools.chain([longer], numbered) if each not in taken)


def _different(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels, those that several runs have with the run's folder behind them."""
    counts = Counter(labels.values())
    taken = set(labels.values())
    found = {}
    for folder, label in labels.items():
        found[folder] = label
        if counts[label] > 1 and label != folder:
            found[folder] = unused(label, folder, taken)
            taken.add(found[folder])
    return found


def _told_apart(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    flat = [dict(flat_settings(each, NOT_OF_A_LABEL)) for each in settings.values()]
    keys = list(dict.fromkeys(key for each in flat for key in each))
    differing = [key for key in keys if len({_label_part(key, each) for each in flat}) > 1]
    for chosen in (*((key,) for key in differing), *itertools.combinations(differing, 2)):
        labels = [", ".join(_label_part(key, each) for key in chosen) for each in flat]
        if len(set(labels)) == len(labels) and max(map(len, labels)) <= LONGEST:
            return dict(zip(settings, labels, strict=True))
    return {folder: folder for folder in settings}


def _label_part(key: str, settings: Mapping[str, Any]) -> str:
    """A setting's value; with the setting's name where the value alone, such as a number, says nothing."""
    value = settings.get(key)
    name = key.rpartition(".")[2].removeprefix("enable_").replace("_", " ")
    if isinstance(value, list):
        value = " ".join(map(str, value))
    if isinstance(value, str) and value:
        return value
    if value is True:
        return name
    if value is False or value == "":
        return f"no {name}"
    # A count of what the setting's name is the plural of: 4 shots.
    if isinstance(value, int) and _is_plural(name):
        return f"1 {name.removesuffix('s')}" if value == 1 else f"{value} {name}"
    return f"{name} {value}"


def _is_plural(name: str) -> bool:
    return name.endswith("s") and " " not in name
