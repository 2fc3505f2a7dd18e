"""A scripted writer of KUMO domains and books, and a way to play a run with it in this process, without Ray."""

import asyncio
import functools
import itertools
import json
import random
import re

import yaml

from cluster.engines.base import Request
from cluster.runner.messages import Assignment, NewReplica
from cluster.runner.model_player import ModelPlayer
from cluster.runner.router import Router
from cluster.runner.runner import Runner
from envs.kumo import load_domain, write_book
from envs.kumo.task import Task
from envs.kumo.vocabulary import draw_names
from evals.suites.kumo.lab.pipeline.configure import problems
from evals.suites.kumo.lab.pipeline.proposals import Proposal
from evals.types import Reply


def play_with(replica, batch=64):
    """A ``Play`` for ``cluster.commands.run.run``: one runner and one replica in this process."""

    def play(settings, todo, directory, stats, progress, watcher):
        asyncio.run(play_all(settings, todo, directory, replica, batch))
        return False

    return play


async def play_all(settings, todo, directory, replica, batch):
    """Play episodes with one runner and one replica, and commit them."""
    runner = Runner(settings.suite, ModelPlayer(Router("sticky"), settings.decoding))
    left, first = list(todo), (NewReplica("one", replica, batch),)
    done = 0
    room = 0
    while done < len(todo):
        episodes, left = tuple(left[:room]), left[room:]
        report = await runner.exchange(Assignment(episodes=episodes, replicas=first, remaining=len(left)))
        first, room = (), report.room
        if report.finished is not None:
            directory.commit(report.finished)
            done += report.finished.num_rows
    runner.end()


def text_of(request: Request) -> str:
    """What the last message asks."""
    return str(request.chat[-1].parts[0])


def stage_of(request: Request) -> str:
    """What a request is for, told by its first message."""
    first = str(request.chat[0].parts[0])
    if "new domains in the field" in first:
        return "propose"
    if "Write the domain" in first:
        return "configure"
    if "Read from it which" in first:
        return "extract"
    if "Find the faults of the book" in first:
        return "faults"
    return "revise" if "There is a book already" in first else "write"


def proposal(name, **changes):
    """A sound proposal."""
    truths = [f"{name} {letter}" for letter in ("Alder", "Birch", "Cedar", "Dogwood", "Elder", "Fir")]
    fields = {
        "title": name,
        "goal": f"One of the listed members of {name} is hidden. Find out which.",
        "truth": {"singular": "member", "plural": "members"},
        "action": {"singular": "probe", "plural": "probes"},
        "truths": truths,
        "actions": [f"{name} Weighing", f"{name} Sniffing", f"{name} Tasting"],
    }
    return {**fields, **changes}


@functools.cache
def domain_body(title, truths=12, actions=8):
    """Truths and tests of a sound domain, nonsense but in order: the first draw that our checks accept."""
    like = Proposal.read(proposal(title), "biology")
    drawn = (_draw_body(title, truths, actions, seed) for seed in itertools.count())
    return next(body for body in drawn if not problems(like, body, truths, actions))


def _draw_body(title, truths, actions, seed):
    rng = random.Random(f"{title}/{seed}")
    names = [f"{title} {chr(65 + n // 26)}{chr(97 + n % 26)}x" for n in range(truths)]
    body = {"truths": {name: f"The member number {n} of the made-up family {n * n}." for n, name in enumerate(names)}}
    body["actions"] = {}
    for number in range(actions):
        gone = rng.sample(names, truths // 3), rng.sample(names, truths // 4), rng.sample(names, 2)
        keys = (
            ("0 to 4", "5 to 9", "10 to 20")
            if number % 3 == 0
            else (f"tone {number}a", f"tone {number}b", f"tone {number}c")
        )
        kept = [sorted(set(each) - (set(gone[0]) & set(gone[1]) & set(gone[2]))) for each in gone]
        body["actions"][f"{title} Probe {chr(65 + number)}"] = {
            "definition": f"The thing number {number} is held against a gauge of kind {number * 7}.",
            "outcomes": dict(zip(keys, kept, strict=True)),
        }
    return body


def as_reply(value, fence=True):
    """A value as a model would send it."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1_000)
    return f"Here it is:\n```yaml\n{text}```\n" if fence else text


def title_of(request: Request) -> str:
    """The domain that is asked for."""
    return re.search(r'Write the domain "(.+?)"', str(request.chat[0].parts[0]))[1]


def game_of(request: Request, games):
    """The game of a request about a book, found by the names of its tests."""
    first = str(request.chat[0].parts[0])
    return max(
        games,
        key=lambda game: sum(f"- {a.name}" in first for a in game[1].actions) + sum(t in first for t in game[1].truths),
    )


def true_table(task: Task) -> str:
    """What a faithful reader replies."""
    return json.dumps({a.name: {s.text: list(s.rules_out) for s in a.states} for a in task.actions})


def sound(request: Request, games=()) -> str:
    """What a perfect model replies."""
    stage = stage_of(request)
    if stage == "propose":
        field = re.search(r'in the field "(.+?)"', text_of(request))[1]
        return as_reply([proposal(name) for name in draw_names(5, "nonsense", random.Random(field))])
    if stage == "configure":
        return as_reply(domain_body(title_of(request)))
    domain, task = game_of(request, games)
    if stage in ("write", "revise"):
        return write_book(task, domain)
    return true_table(task) if stage == "extract" else "[]"


class Writer:
    """Answers as its script says; the script may give text, a reply, or an error."""

    def __init__(self, script, log=None):
        self.script, self.log = script, log
        self.asked = []
        self.inside = self.most_inside = 0

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            await asyncio.sleep(0)
            said = self.script(request)
        finally:
            self.inside -= 1
        if isinstance(said, Exception):
            raise said
        if isinstance(said, Reply):
            return said
        return Reply(said, prompt_tokens=100, completion_tokens=10, cost=0.001)


def games_of(folder):
    """Domains and tasks of a pipeline's folder at its default settings."""
    from evals.suites.kumo.lab.pipeline.items import tasks_of

    return tasks_of([load_domain(path) for path in sorted((folder / "domains").glob("*.yaml"))], "easy", 2, 0)
