"""A small checkout in the layout of the published KUMO repository, with words of our own."""

import json
import re
from pathlib import Path

AGENT = """
import copy

class VanillaAgent:
    def reset(self):
        raise SystemExit("executed")

    def response(self, observation):
        if observation is not None:
            self.messages.append({'role': 'user', 'content': f"Seen last: {observation}"})
        messages = copy.deepcopy(self.messages)
        cur_inst = f"Pick a test of {self.A} or a truth of {self.T}. \\nSay '<ANSWER> ${{name}} </ANSWER>'."
        if observation is not None:
            messages[-1]["content"] += "\\n\\n" + cur_inst
        else:
            self.messages.append({"role": "user", "content": "Start."})
            messages.append({"role": "user", "content": cur_inst})
        self.messages.append({'role': 'assistant', 'content': outputs})
"""

ENV = '''
from common.registry import registry
from env.data.{module} import *

@registry.register_environment("{env}")
class {env}(BaseEnv):
    def get_system_prompt(self, book=None, agent_type='VanillaAgent'):
        if agent_type == 'VanillaAgent':
            system_prompt = \\
                f"""
Which animal was it?

Animals: {{self.env.truth_space}}

Searches: {{self.env.action_space}}
"""
            if book is not None:
                system_prompt += f"\\n\\nThe book:\\n\\n{{book}}"
            return system_prompt
'''

POND = """
'''What was at the pond.'''
Truths = {'Otter', 'Heron', 'Mallard', 'Fox', 'Crab'}
Actions = ['Prints', 'Scale', 'Leftovers', 'Call', 'Feather', 'Path', 'Nest']
Outcomes = outcomes = {
    'Prints': {'type': 'str', 'states': {'toes': {'Otter', 'Fox'}, 'pads': {'Heron', 'Mallard'}, 'none': set()}},
    'Scale': {'type': 'float', 'states': {(0, 1): {'Otter', 'Fox'}, (1, 5): {'Heron'}, (5, -1 * 1): set()}},
    'Leftovers': {'type': 'str', 'states': {'bones': set(['Mallard']), 'stems': {'Otter', 'Heron'}}},
    'Call': {'type': 'str', 'states': {
        'quack': set([t for t in Names if t not in ['Mallard'] and 'x' not in t]), 'none': set()}},
    'Feather': {'type': 'str', 'states': {'found': {'Fox'}, 'none': set()}},
    'Path': {'type': 'str', 'states': {'wide': {'Heron'}, 'narrow': {'Fox'}}},
    'Nest': {'type': 'str', 'states': {'warm': {'Crab'}, 'cold': set()}},
}
""".replace("(5, -1 * 1): set()", "(-3.5, -1): set()").replace(
    "Outcomes = outcomes", "Names = ['Otter', 'Fox', 'Crab']\nOutcomes = outcomes"
)

MARSH = """
Truths = ['Otter', 'Heron', 'Mallard', 'Fox', 'Crab', 'Call']
Actions = ['Prints', 'Scale', 'Count', 'Call', 'Depth', 'Path']
Outcomes = {
    'Prints': {'type': 'str', 'states': {'toes': {'Otter', 'Fox'}, 'pads': {'Heron', 'Mallard'}}},
    'Scale': {'type': 'float', 'states': {(0, 3): {'Otter'}, (2, 5): {'Heron'}}},
    'Count': {'type': 'int', 'states': {(1, 2): {'Fox'}, 3: {'Crab'}}},
    'Call': {'type': 'str', 'states': {'loud': {'Mallard'}, 'low': set()}},
    'Depth': {'type': 'float', 'states': {(9, 4): {'Fox'}, (0, 4): set()}},
    'Path': {'type': 'str', 'states': {'wide': {'Crab'}, 'narrow': {'Fox', 'Call'}}},
}
"""

EASY = "truth_num=4+action_num=6+valid_truth_num=1"


def task(seed, truths, valid, **observations):
    """A line of a published task file."""
    names = [name.replace("_", " ") for name in observations]
    shown = dict(zip(names, observations.values(), strict=True))
    return {"truths": truths, "actions": names, "observations": shown, "seed": seed, "valid_truth": valid}


FOUR = ["Heron", "Otter", "Mallard", "Fox"]
POND_TASKS = [
    task(0, FOUR, "Otter", Prints="pads", Scale=1, Leftovers="bones", Call="none", Feather="found", Path="narrow"),
    task(1, FOUR, "Heron", Prints="toes", Scale=0.5, Leftovers="bones", Call="none", Feather="none", Nest="cold"),
    task(2, FOUR, "Fox", Prints="pads", Scale=3.25, Leftovers="stems", Call="none", Feather="none", Path="wide"),
]
MARSH_TASKS = [
    task(0, FOUR, "Mallard", Prints="toes", Scale=2.5, Count=[1, 2], Call="low", Depth=3, Path="narrow"),
    task(1, FOUR, "Mallard", Prints="toes", Scale=4, Count=1, Call="low", Depth=6.5, Path="narrow"),
    task(
        2,
        ["Heron", "Call", "Mallard", "Fox"],
        "Heron",
        Prints="toes",
        Scale=1,
        Count=1,
        Call="loud",
        Depth=1,
        Path="narrow",
    ),
    task(3, FOUR, "Otter", Prints="pads", Scale=2.5, Count=1, Call="low", Depth=1, Path="wide"),
]


def reply(name):
    """A reply as models write them."""
    return f"Reasons.\n<ANSWER> {name} </ANSWER>"


def transcript(texts, right, tokens=100):
    """One run of a result file, with what was recorded beside the replies: here, a test is a test whatever its name."""
    found = [re.search(r"<ANSWER> (\w+) </ANSWER>|^(\w+)$", text or "") for text in texts]
    names = [match[1] or match[2] for match in found if match]
    won = None not in texts and names[-1:] == [right]
    actions = [*names, {"predicted_truth": right}] if won else names
    record = {"actions": actions, "successful": won, "observations": []}
    return {**record, "generated_text": texts, "consumed_tokens": tokens}


def write_checkout(root: Path) -> Path:
    """Write the checkout with two domains, search counts and the transcripts of two models."""
    _write(root / "agents" / "vanilla_agent.py", AGENT)
    for env, module, data, tasks in (
        ("PondEnv", "pond_data", POND, POND_TASKS),
        ("MarshEnv", "wet", MARSH, MARSH_TASKS),
    ):
        _write(root / "env" / f"{env.lower()[:-3]}_env.py", ENV.format(env=env, module=module))
        _write(root / "env" / "data" / f"{module}.py", data)
        _write_lines(root / "env" / env / f"{EASY}.jsonl", tasks)
        for line in tasks:
            book = f"Rules of {env} {line['seed']}. " * 60
            _write(root / "env" / env / "knowledge_book" / EASY / f"seed={line['seed']}.txt", book)
        counts = [
            {
                "trajectories": [{"actions": ["Call", "Prints", "Path", "Otter", {}]}],
                "seed": t["seed"],
            }
            for t in tasks
        ]
        _write_lines(root / "results" / "search_results" / env / EASY / "eval_times=10.jsonl", counts)
    return root


def write_transcripts(root: Path, model: str, env: str, runs: dict[int, list]) -> None:
    """Write a model's result file; ``runs`` maps seeds to five lists of replies."""
    right = {line["seed"]: line["valid_truth"] for line in {"PondEnv": POND_TASKS, "MarshEnv": MARSH_TASKS}[env]}
    lines = [
        {"trajectories": [transcript(texts, right[seed]) for texts in each], "seed": seed}
        for seed, each in runs.items()
    ]
    _write_lines(root / "results" / model / "VanillaAgent" / env / EASY / "eval_times=5.jsonl", lines)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _write_lines(path: Path, values: list) -> None:
    _write(path, "".join(json.dumps(value) + "\n" for value in values))
