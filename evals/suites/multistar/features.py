"""What the words of a MultiStAR question tell of each option, as plain data: what the search for shortcuts learns from.

Only the sense ``text`` is given: a player of these values answers without the picture.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evals.suites.multistar.questions import Question
from evals.types import OptionFeatures


def option_features(question: Question, labels: Sequence[str]) -> list[OptionFeatures]:
    """The values of each option, in the order in which they are offered."""
    template = re.sub(r"\d+", "0", question.node)
    offered = " | ".join(sorted(question.options))
    found = []
    for place, (label, option) in enumerate(zip(labels, question.options, strict=True)):
        numbers = re.findall(r"\d+", option)
        values: dict[str, str | float | bool] = {
            "text: template": template,
            "text: option": option,
            "text: option of this template": f"{template}: {option}",
            "text: option among those offered": f"{option} of {offered}",
            "text: subject": question.subject,
            "text: place in the list": float(place),
        }
        if numbers:
            values["text: number in the option"] = float(numbers[0])
        found.append(OptionFeatures(label, values))
    return found
