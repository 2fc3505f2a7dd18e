"""How many of the published KUMO domains our pipeline accepts: ``python -m benchmarks.kumo_written_domains IMPORTED``.

Models wrote these tables for the paper. IMPORTED is what ``raycade kumo import`` wrote; the tables have no definitions, so
neutral ones stand in their place. Accepted as they are, and after ``pipeline.repair``, which asks no model.
"""

import json
import sys
from decimal import Decimal
from pathlib import Path

from evals.suites.kumo.lab.pipeline.configure import problems
from evals.suites.kumo.lab.pipeline.proposals import Proposal
from evals.suites.kumo.lab.pipeline.repair import repaired

TRUTHS, ACTIONS = 5, 6
"""Fewest of a domain: the published ones were not asked for more."""


def body_of(domain):
    """A domain of the imported folder as a model would have sent it."""
    truths = {name: f"It is number {n} of those that come into question." for n, name in enumerate(domain["truths"])}
    actions = {
        action["name"]: {
            "definition": f"It is number {number} of the ways to find out more here.",
            "outcomes": {outcome_text(each["state"]): each["rules_out"] for each in action["states"]},
        }
        for number, action in enumerate(domain["actions"])
    }
    return {"truths": truths, "actions": actions}


def outcome_text(state):
    """A range as domain files write it, without exponents."""
    return state if isinstance(state, str) else " to ".join(f"{Decimal(repr(end)):f}" for end in state)


def proposal_of(name, domain):
    noun = {"singular": "candidate", "plural": "candidates"}
    examples = tuple(domain["truths"][:3]), (domain["actions"][0]["name"],)
    return Proposal(name, name.title(), "Find out which one it is.", "biology", noun, noun, *examples)


def main(folder):
    as_written = after = 0
    files = sorted((folder / "domains").glob("*.json"))
    for path in files:
        domain = json.loads(path.read_text(encoding="utf-8"))
        proposal, body = proposal_of(path.stem, domain), body_of(domain)
        as_written += not problems(proposal, body, TRUTHS, ACTIONS)
        complaints = problems(proposal, repaired(body)[0], TRUTHS, ACTIONS)
        after += not complaints
        if complaints:
            print(f"{path.stem}: {complaints[0]}")
    print(f"{len(files)} domains: {as_written} accepted as written, {after} after repair without a model")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
