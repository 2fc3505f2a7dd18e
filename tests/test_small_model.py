"""The example of a small transformer: what it reads, where its loss counts, that it learns, and that vLLM runs it."""

import asyncio
import json

import numpy as np
import pytest
import torch

from cluster.engines.base import Request, Sampling
from cluster.engines.vllm import VLLMEngine
from envs.kumo import domain_from, generate_tasks
from evals.suites.kumo.lab.trajectories import file as trajectory_file
from evals.suites.kumo.lab.trajectories.plays import Recipe, rows_of
from evals.types import message
from examples.small_model.__main__ import VALIDATION
from examples.small_model.__main__ import main as train
from examples.small_model.data import PADDING, PROMPT, REPLY, batches, encode
from examples.small_model.reinforce import Choice, Policy, update
from examples.small_model.reinforce import main as reinforce
from examples.small_model.train import Trainer, Training, new_model, reply_accuracy, weighted_loss
from examples.small_model.vocabulary import END, build_tokenizer, names_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows():
    recipe = Recipe("seashells@out")
    tasks = generate_tasks(domain_from(recipe.domain), count=60)
    return [row for task in tasks for row in rows_of(recipe, task)]


@pytest.fixture(scope="module")
def tokenizer(rows):
    return build_tokenizer(rows)


def small(tokenizer, **settings):
    return Trainer(new_model(tokenizer, 0, width=32, layers=1), tokenizer, Training(**{"batch": 4, **settings}))


def test_names_and_phrases_are_one_token_and_no_text_is_lost(rows, tokenizer):
    for row in rows[:10]:
        text = tokenizer.apply_chat_template(row["messages"], tokenize=False)
        ids, _ = encode(row, tokenizer)
        assert tokenizer(text)["input_ids"] == ids.tolist(), "as the chat template writes it"
        assert tokenizer.decode(ids.tolist()) == text
        assert all(len(tokenizer.encode(name)) == 1 for name in names_of(row))
        assert len(ids) < 0.2 * len(text)
    for text in ("Äpfel – 12.5 %\n\t", "Fox and <|end", "  "):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_an_unanswered_chat_ends_where_the_reply_begins(rows, tokenizer):
    chat = rows[0]["messages"]
    asked = tokenizer.apply_chat_template(chat[:2], tokenize=False, add_generation_prompt=True)
    assert tokenizer.apply_chat_template(chat[:3], tokenize=False).startswith(asked + chat[2]["content"])


def test_replies_and_their_ends_are_told_from_prompts(rows, tokenizer):
    for row in rows[:10]:
        ids, kinds = encode(row, tokenizer)
        expected = "".join(f"<ANSWER> {name} </ANSWER>{END}" for name in row["actions"])
        assert tokenizer.decode(ids[kinds == REPLY].tolist()) == expected
        assert set(kinds.tolist()) == {PROMPT, REPLY}


def test_an_epoch_shows_every_game_once(rows, tokenizer):
    examples = [encode(row, tokenizer) for row in rows[:24]]
    stream = batches(examples, 4, np.random.default_rng(0), tokenizer.pad_token_id)
    seen = []
    for _ in range(6):
        batch = next(stream)
        for ids, kinds in zip(batch["input_ids"].numpy(), batch["kinds"].numpy(), strict=True):
            real = kinds != PADDING
            assert (ids[~real] == tokenizer.pad_token_id).all()
            seen.append(ids[real].tolist())
    assert sorted(seen) == sorted(ids.tolist() for ids, _ in examples)


def test_the_loss_is_that_of_the_replies_and_a_share_of_the_prompts(rows, tokenizer):
    model = small(tokenizer).model
    batch = next(batches([encode(row, tokenizer) for row in rows[:4]], 4, np.random.default_rng(0), 0))
    swapped = {**batch, "kinds": 3 - batch["kinds"]}
    swapped["kinds"][batch["kinds"] == PADDING] = PADDING
    with torch.no_grad():
        alone, replies = weighted_loss(model, batch, 0.0)
        both, _ = weighted_loss(model, batch, 0.5)
        prompts, _ = weighted_loss(model, swapped, 0.0)
    assert float(alone) == float(replies) < float(both)
    assert float(both) == pytest.approx(float(alone) + 0.5 * float(prompts))


def test_fewer_games_than_a_batch_are_a_batch(rows, tokenizer):
    examples = [encode(row, tokenizer) for row in rows[:3]]
    assert len(next(batches(examples, 32, np.random.default_rng(0), 0))["input_ids"]) == 3


def test_a_step_lowers_the_loss_of_its_batch(rows, tokenizer):
    trainer = small(tokenizer, rate=3e-2)
    batch = next(batches([encode(row, tokenizer) for row in rows[:4]], 4, np.random.default_rng(0), 0))
    losses = [trainer.one_step(batch) for _ in range(8)]
    assert losses[-1] < losses[0] and trainer.step == 8


def test_the_learning_rates_rise_at_first_and_fall_to_nothing(rows, tokenizer):
    trainer = small(tokenizer, steps=200)
    batch = next(batches([encode(row, tokenizer) for row in rows[:2]], 2, np.random.default_rng(0), 0))
    seen = []
    for trainer.step in (0, 60, 130, 199):
        trainer.one_step(batch)
        seen.append(
            [
                optimizer.param_groups[0]["lr"] / rate
                for optimizer, rate in zip(trainer.optimizers, trainer.rates, strict=True)
            ]
        )
    first, high, middle, last = (np.array(rates) for rates in seen)
    assert (first < 0.1).all() and (high > 0.7).all() and (high > middle).all() and (last < 0.01).all()


def test_training_goes_on_where_it_stopped(rows, tokenizer, tmp_path):
    examples = [encode(row, tokenizer) for row in rows]
    trainer = small(tokenizer, steps=3)
    trainer.train(examples)
    assert trainer.step == 3
    trainer.save(tmp_path)
    again = Trainer.load(tmp_path, Training(steps=5, batch=4))
    assert again.step == 3 and again.tokenizer.encode("Fox") == tokenizer.encode("Fox")
    batch = next(batches(examples, 4, np.random.default_rng(0), 0))
    with torch.no_grad():
        losses = [float(weighted_loss(each.model, batch, 0.0)[0]) for each in (trainer, again)]
    assert losses[0] == pytest.approx(losses[1])
    again.train(examples)
    assert again.step == 5
    assert again.optimizers[1].state_dict()["state"][0]["step"] == 5


def test_the_command_trains_saves_and_goes_on(rows, tmp_path, capsys):
    path, folder = tmp_path / "t.jsonl", tmp_path / "model"
    trajectory_file.write(path, [rows])
    assert train([str(path), str(folder), "--steps", "1"]) == 0
    assert "1 of 1 steps" in capsys.readouterr().out
    assert train([str(path), str(folder), "--steps", "2"]) == 0
    assert "2 of 2 steps" in capsys.readouterr().out
    trajectory_file.write(tmp_path / "few.jsonl", [rows[:VALIDATION]])
    assert train([str(tmp_path / "few.jsonl"), str(folder)]) == 2
    assert train([str(tmp_path / "none.jsonl"), str(folder)]) == 2


def test_reinforcement_makes_rewarded_replies_likelier(rows, tokenizer, tmp_path):
    small(tokenizer).save(tmp_path)
    policy = Policy(tmp_path)
    chat = tuple(message(each["role"], each["content"]) for each in rows[0]["messages"][:2])
    options = (*rows[0]["tests"], *rows[0]["truths"])
    optimizer = torch.optim.AdamW(policy.model.parameters(), 1e-3)

    def chances():
        with torch.no_grad():
            return policy.log_probabilities([chat, chat], [options, options])[0].exp()

    before = chances()
    assert float(before.sum()) == pytest.approx(1, abs=1e-5)
    games = [[Choice(chat, options, 2, total=1.0)], [Choice(chat, options, 3, total=0.0)]]
    for _ in range(5):
        assert update(policy, optimizer, games, copies=2) == 0.5
    after = chances()
    assert after[2] > before[2] and after[3] < before[3]


def test_the_reinforced_model_is_written_with_its_curve(rows, tokenizer, tmp_path, capsys):
    small(tokenizer).save(tmp_path / "model")
    words = [
        str(tmp_path / "model"),
        str(tmp_path / "out"),
        "--domain",
        "seashells@out",
        "--updates",
        "1",
        "--games",
        "2",
    ]
    assert reinforce([*words, "--held-out", "4"]) == 0
    assert "gain on the same games" in capsys.readouterr().out
    curve = json.loads((tmp_path / "out" / "curve.json").read_text())
    assert [point["update"] for point in curve] == [0, 1] and (tmp_path / "out" / "curve.png").exists()
    assert len(Policy(tmp_path / "out").tokenizer) == len(tokenizer)


@pytest.mark.vllm
def test_vllm_writes_the_replies_that_the_model_has_learned(rows, tokenizer, tmp_path):
    examples = [encode(row, tokenizer) for row in rows[:4]]
    trainer = small(tokenizer, steps=150, rate=3e-2)
    trainer.train(examples)
    assert reply_accuracy(trainer.model, examples, tokenizer) == 1
    trainer.save(tmp_path)

    async def replies():
        engine = VLLMEngine(
            Sampling(max_tokens=32),
            str(tmp_path),
            dtype="float32",
            kv_cache_gib=0.25,
            enforce_eager=True,
            block_size=32,
        )
        await engine.start()
        try:
            chats = [[message(each["role"], each["content"]) for each in row["messages"][:2]] for row in rows[:4]]
            return [(await engine.complete(Request("ask", tuple(chat)))).text for chat in chats]
        finally:
            await engine.close()

    assert asyncio.run(replies()) == [row["messages"][2]["content"] for row in rows[:4]]
