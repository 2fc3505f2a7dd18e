"""Trajectories as tokens: the mask marks what the model itself writes, and no more."""

import pytest

from cluster.cli import main
from cluster.engines.tiny_model import ensure_tiny_model
from cluster.suite_commands.kumo.token_masks import token_mask
from evals.suites.kumo.lab.trajectories import file as trajectory_file

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(ensure_tiny_model())


def said(*texts):
    return [
        {"role": role, "content": text}
        for role, text in zip(("system", *["user", "assistant"] * 9), texts, strict=False)
    ]


def marked(tokenizer, messages):
    ids, mask = token_mask(tokenizer, messages)
    assert ids == tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]
    return tokenizer.decode([token for token, written in zip(ids, mask, strict=True) if written])


@pytest.mark.slow
@pytest.mark.parametrize("replies", [("A 1.5, ok\n\nB",), ("Höhe", "<ANSWER> x </ANSWER>"), ("user", "")])
def test_replies_and_their_ends_are_marked(tokenizer, replies):
    chat = said("Rules.", *(text for reply in replies for text in (reply, reply)))
    assert marked(tokenizer, chat) == "".join(f"{reply}<|im_end|>" for reply in replies)


@pytest.mark.slow
def test_the_command_writes_what_trl_reads(tokenizer, tmp_path, capsys):
    made, out = tmp_path / "t.jsonl", tmp_path / "masks.parquet"
    for words in (
        ["trajectories", made, "reptiles@in", "--count", "3"],
        ["token-masks", made, out, "--tokenizer", "tiny"],
    ):
        with pytest.raises(SystemExit) as end:
            main(["kumo", "lab", *map(str, words)])
        assert end.value.code == 0
    rows = list(trajectory_file.read(made))
    import pyarrow.parquet as pq

    found = pq.read_table(out).to_pylist()
    assert [(row["input_ids"], row["assistant_masks"]) for row in found] == [
        token_mask(tokenizer, row["messages"]) for row in rows
    ]
    trained = sum(sum(row["assistant_masks"]) for row in found)
    assert (
        f"3 trajectories of {sum(len(row['input_ids']) for row in found):,} tokens, {trained:,} of them in replies"
        in (capsys.readouterr().out)
    )
    with pytest.raises(SystemExit) as end:
        main(["kumo", "lab", "token-masks", str(made), str(tmp_path / "n.parquet"), "--tokenizer", str(tmp_path)])
    assert end.value.code == 2 and "cannot be loaded" in capsys.readouterr().err
