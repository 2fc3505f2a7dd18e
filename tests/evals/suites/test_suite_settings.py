"""What settings of KidGym and KUMO mean, and which are refused in which words."""

import pytest
import yaml

from envs.kumo import generate_tasks, load_domain, write_tasks
from evals.suites.kidgym import KidGymSuite
from evals.suites.kumo import KumoSuite
from evals.suites.kumo.likely import KumoLikelySuite
from tests.envs.kumo_games import toy_yaml
from tests.golden import check_golden, digest

KIDGYM = [
    {},
    {"tasks": ["CL", "MDE"], "levels": [2, 1], "modes": ["icl", "zero_shot"], "variant": ["published", "balanced"]},
    {"modality": "text", "detail": "json", "history": 2, "feedback": ["legal"], "decoder": "paper"},
    {"modality": "both", "tell_budget": False, "list_actions": False, "resolution": 96, "modes": "cot"},
    {"tasks": ["MMA"], "levels": 3, "history": "none", "past_pictures": "text", "mde_decoys": "published"},
    {"seeds": "training:2", "option_order": "listed"},
    {"templates": "OWN", "modality": "text"},
    {"tasks": "all", "levels": 1},
    *({"skin": "SKIN", "modes": modes, "resolution": 32} for modes in ("zero_shot", "icl")),
    {"modes": "icl", "resolution": 32},
    {"skin": "EMPTY"},
    {
        "tasks": ["MDE", "MFI"],
        "mde_decoys": "published",
        "decoder": "published",
        "past_reasoning": "kept",
        "levels": [3, 2],
    },
    {"tasks": "MFI", "history": "all", "past_pictures": "text", "modes": "icl", "feedback": ["reward", "legal"]},
    {"tasks": "DMA", "history": 1, "tell_budget": False, "modes": ["icl", "cot"], "resolution": 32, "episodes": 2},
    {
        "templates": "CHAT",
        "tasks": ["MFI", "CL"],
        "levels": 2,
        "modality": "both",
        "detail": "prose",
        "option_order": "listed",
    },
    *({"templates": "CHAT", **some} for some in ({"history": 2}, {"feedback": "legal"}, {"past_pictures": "text"})),
    {"templates": "WORDS", "variant": "balanced"},
    {"templates": "WORDS", "variant": "published"},
    {"tasks": ["PL", "FI"], "levels": 5, "variant": "balanced"},
    *({"tasks": tasks} for tasks in (["CL", "XY"], ["CL", "CL"], [], ["cl"])),
    *({"levels": levels} for levels in ([1, 5], True, 0, "1")),
    *({"modes": ["zeroshot"]}, {"resolution": 48}, {"episodes": 0}, {"episodes": 10_000_000}, {"history": -1}),
    *({"skin": "no/folder"}, {"templates": "no/folder"}, {"seeds": "x"}),
    *({"templates": "OWN", name: False} for name in ("tell_budget", "list_actions")),
    {"list_actions": False, "decoder": "paper"},
    {"tasks": ["MDE"], "variant": "balanced", "mde_decoys": "published"},
    {"tasks": ["PL"], "levels": 4, "variant": ["published", "balanced"]},
    *({name: "x"} for name in ("recording", "checkout", "python")),
    *({"environments": "published", **some} for some in ({}, {"recording": "x"}, {"recording": "x", "checkout": "y"})),
    *(
        {"environments": ["own", "published"], "recording": "x", "checkout": "y", "python": "z", **some}
        for some in ({}, {"modality": "text"}, {"modes": "icl"}, {"seeds": "training:1"})
    ),
]
KUMO = [
    {},
    {"domains": ["medical", "music"], "difficulties": ["easy", "5x7"], "tasks_per_domain": 2, "repeats": 2},
    {"truths": 6, "actions": 9, "valid_truths": 2},
    {"structure": {"density": 0.15, "truths": 20, "actions": 12, "domains": 2}},
    {"structure": {"names": "permuted"}, "domains": ["medical", "music"], "seed": 3},
    {"world": "agree", "domains": ["rivers"], "tell_world": False},
    {"numeric": 0.5, "domains": ["chemical"], "book": "table", "decoder": "strict"},
    {"tasks": "TASKS", "truths": 6, "actions": 9},
    {"history": 1, "feedback": "changed", "option_order": "shuffled", "max_steps": 3, "seeds": "training:4"},
    *({"domains": domains} for domains in (["medicine"], [], ["music", "music", "medical", "medical"], ["TOY"])),
    *({"difficulties": levels} for levels in (["medium"], ["easy", "4x6"], ["14x9"], "easi")),
    *(
        {"truths": 6},
        {"actions": 6},
        {"truths": 6, "actions": 0},
        {"truths": 14, "actions": 9},
        {"truths": 4, "actions": 19},
    ),
    *({name: -1} for name in ("seed", "tasks_per_domain", "repeats", "max_steps", "numeric")),
    *({"decoder": "loose"}, {"give_aways": "no"}, {"valid_truths": 4}, {"numeric": 2}, {"repeats": 10_000_000}),
    *({"structure": wrong} for wrong in ("drawn", {"densty": 0.1})),
    *({"structure": {"density": 0.1}, "book": "noisy"}, {"tell_world": False}, {"tasks": "x", "source": "y"}),
    {"world": "agree"},
    *({"world": "agree", name: value} for name, value in (("valid_truths", 2), ("structure", {}), ("numeric", 0.5))),
    *(
        {"tasks": "TASKS", "truths": 6, "actions": 9, name: value}
        for name, value in (("seed", 1), ("valid_truths", 2), ("structure", {}), ("world", "agree"), ("numeric", 0.5))
    ),
    {"tasks": "TASKS", "truths": 6, "actions": 9, "book": "written"},
    *({"tasks": "nowhere.jsonl"}, {"tasks": "TASKS"}, {"tasks": "TASKS", "seeds": "training:1"}, {"source": "nowhere"}),
    *({"book": book} for book in ("written", "published", "short")),
    *({"prompt": "published", **some} for some in ({}, {"feedback": "changed", "list_actions": False}, {"history": 1})),
    *({"source": "nowhere", "book": book} for book in ("prose", "published")),
    {"transcripts": "x"},
]
LIKELY = [
    {"domains": ["medical"], "difficulties": ["easy", "3x4"], "tasks_per_domain": 2},
    *({"domains": ["medicine"]}, {"difficulties": ["hard"]}, {"difficulties": ["x"]}, {"repeats": 0}, {"seed": -1}),
    *(
        {"difficulties": ["6x8", "4x6", "easy"]},
        {"max_steps": 6},
        {"max_steps": 7},
        {"wrong": 0},
        {"difficulties": "9x8"},
    ),
    *({"domains": "medical"}, {"domains": ["medical", "medical"]}, {"difficulties": "3x9"}),
]
SMALL = {"domains": ["medical"], "difficulties": ["easy"], "tasks_per_domain": 1, "repeats": 1}
SUITES = {
    "kidgym": (KidGymSuite, {"tasks": ["CL"], "levels": [1], "modes": ["zero_shot"], "episodes": 1}, KIDGYM),
    "kumo": (KumoSuite, SMALL, KUMO),
    "kumo_likely": (KumoLikelySuite, SMALL, LIKELY),
}


@pytest.mark.parametrize("name", SUITES)
def test_what_settings_mean_and_which_are_refused_is_as_on_record(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    suite_of, small, cases = SUITES[name]
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(toy_yaml(), sort_keys=False))
    (tmp_path / "own").mkdir()
    (tmp_path / "own/answer.txt").write_text("Reply with one of $letters.")
    for folder, file, text in (
        ("chat", "chat.yaml", '[{role: user, text: "$goal $frames $actions $answer"}]'),
        ("words", "words.yaml", "goals: {CL: Sort them.}"),
        (
            "skin",
            "wall.svg",
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"><rect width="2" height="1"/></svg>',
        ),
        ("empty", "wall.svg", '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2"></svg>'),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text(text)
    write_tasks(tmp_path / "tasks.jsonl", generate_tasks(load_domain("medical"), 6, 9, count=2, valid_truths=2))
    files = {"TOY": tmp_path / "toy.yaml", "OWN": tmp_path / "own", "TASKS": tmp_path / "tasks.jsonl"}
    files |= {
        "CHAT": tmp_path / "chat",
        "WORDS": tmp_path / "words",
        "SKIN": tmp_path / "skin",
        "EMPTY": tmp_path / "empty",
    }
    parts = []
    for settings in cases:
        given = {
            key: str(files.get(value, value)) if isinstance(value, str) else value for key, value in settings.items()
        }
        if settings.get("domains") == ["TOY"]:
            given["domains"] = [str(files["TOY"])]
        try:
            suite = suite_of(**{**small, **given})
            plan = suite.plan()
            said = [str(suite.needs), str(getattr(suite, "_conditions", ""))]
            said.append(digest(" ".join(episode.id for episode in plan)))
            for episode in (plan[0], plan[-1]):
                place = f"{episode.task} {episode.level} {episode.mode} {episode.index}.{episode.repeat} {episode.seed}"
                said.append(f"{len(plan)} {place} {episode.budget} {episode.calls:g} {episode.prompt_tokens:.0f}")
        except ValueError as error:
            said = [str(error)]
        parts += [f"{settings}", *(f"    {each}".replace(str(tmp_path), "") for each in said)]
    check_golden(f"{name}_settings", "\n".join(parts))
