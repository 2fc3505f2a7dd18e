"""Chat templates of published models through the check of prompts: which pass, are mended, are refused, or are silently wrong.

    python -m benchmarks.chat_templates FOLDER [FOLDER ...]

The folders hold ``*.jinja`` files. Each template takes the tiny model's place in vLLM's own renderer, first as a model that
reads text only, and, if it knows pictures, as one that reads these too. Then chats of the three suites are rendered that an
oracle checks by another rule: each text and picture of a chat bears a number, and the numbers found in the prompt must be
those of the chat, in order. What a plan says of the template without vLLM stands beside it. The exit code is 1 if a template
that was accepted is wrong or refuses a chat, or plan and start disagree.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.console import show
from cluster.engines.base import EngineError
from cluster.engines.prompt_check import Arrangement, BlankPicture
from cluster.engines.template_files import TemplateError, check_template
from cluster.engines.tiny_model import ensure_tiny_model
from cluster.engines.vllm_chat import VLLMChat
from cluster.engines.vllm_process import prepare_environment
from evals.tables import Table
from evals.types import Chat, Message, Part, PlayerError

PICTURES = 8
WRONG = ("silently wrong", "accepted, then refused")
KNOWS_PICTURES = re.compile(r"image|img", re.IGNORECASE)


def numbered_chats(pictures: bool) -> Iterator[Chat]:
    """Chats of the forms that suites send: a system turn and a question, a growing chat, a worked example, no system turn."""
    seen: list[Part] = [BlankPicture()] if pictures else []
    numbers = iter(range(100_000, 1_000_000))

    def words(lines: int = 2) -> str:
        return "\n\n".join(f"Line N{next(numbers)} of the game.\nIt goes on." for _ in range(lines))

    opening = (Message("system", (words(),)), Message("user", (*seen, words(5))))
    yield opening
    grown = opening
    for _ in range(3):
        grown = (
            *grown,
            Message("assistant", (words(1),)),
            Message("user", (words(1), *seen, words(1)) if seen else (words(2),)),
        )
        yield grown
    example: list[Part] = [part for _ in range(3) for part in (words(1), *seen)] if seen else [words(4)]
    yield Message("system", (words(),)), Message("user", (*example, words(2)))
    yield (Message("user", (words(4), *seen)),)


def silently_wrong(chat: Chat, prompt: str) -> str:
    """What a prompt that was accepted changes of a numbered chat; empty if nothing."""
    asked: list[str] = []
    for part in (part for message in chat for part in message.parts):
        asked.extend(re.findall(r"N\d{6}", part) if isinstance(part, str) else ["picture"])
    numbers = [each for each in asked if each != "picture"]
    found = re.findall(r"N\d{6}", prompt)
    if found != numbers:
        return f"numbers {found[:6]} for {numbers[:6]}"
    if lost := [part for message in chat for part in message.parts if isinstance(part, str) and part not in prompt]:
        return f"not as it was: {lost[0]}"
    # Between two texts of one message more than white space stands exactly where the chat has a picture.
    for message in chat:
        for before, between, after in zip(message.parts, message.parts[1:], message.parts[2:], strict=False):
            if isinstance(before, str) and isinstance(after, str) and not isinstance(between, str):
                gap = prompt[prompt.index(before) + len(before) : prompt.index(after)]
                if not gap.strip():
                    return "a picture is missing between two texts"
    return ""


def planned(template: str, pictures: bool) -> str:
    """Whether a plan refuses the template."""
    limit = {"image": PICTURES if pictures else 0}
    try:
        check_template({"model": "the model", "chat_template": template, "limit_mm_per_prompt": limit})
    except TemplateError:
        return "refused"
    return "accepted"


def tried(renderer: Any, template: str, pictures: bool) -> tuple[str, str]:
    """What becomes of a template: ``passes``, ``mended``, ``refused`` or ``silently wrong``, and how or why."""
    from vllm.renderers import hf

    hf._CONTENT_FORMATS.clear()  # vLLM remembers the form of content by the model's name
    renderer.get_tokenizer().chat_template = template
    chat = VLLMChat("the model", renderer, None, pictures, {})  # type: ignore[arg-type]
    try:
        arrangement = chat.arrange("auto", PICTURES)
    except EngineError as error:
        return "refused", re.sub(r".*as they are: |\. Give another.*", "", str(error))[:100]
    for numbered in numbered_chats(pictures):
        try:
            prompt = chat.rendered(numbered)["prompt"]
        except PlayerError as error:
            return "accepted, then refused", str(error)[:100]
        if wrong := silently_wrong(numbered, prompt):
            return "silently wrong", wrong
    if arrangement == Arrangement():
        return "passes", ""
    changes = [
        "system words in the first user turn" if arrangement.system_role == "user" else "",
        "parts as one text" if arrangement.content_format == "string" else "",
        "pictures between the words" if arrangement.interleaved else "",
    ]
    return "mended", ", ".join(filter(None, changes))


def model_with_first_token(folder: Path) -> Path:
    """The tiny model with a token that begins prompts, which many templates write."""
    home = shutil.copytree(ensure_tiny_model(), folder / "model")
    settings = home / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "bos_token": "<|endoftext|>"}))
    return home


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    folders: list[Path] = parser.parse_args().folders
    prepare_environment(local=True)
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.renderers import hf, renderer_from_config

    with tempfile.TemporaryDirectory() as folder:
        arguments = AsyncEngineArgs(
            model=str(model_with_first_token(Path(folder))),
            limit_mm_per_prompt={"image": PICTURES},
            enforce_eager=True,
            max_model_len=1024,
        )
        renderer = renderer_from_config(arguments.create_engine_config())
        renderer.get_tokenizer()
    hf._try_get_processor_chat_template = lambda *_, **__: None
    rows: list[tuple[str, str, str, str, str]] = []
    texts: set[str] = set()
    for file in (file for folder in folders for file in sorted(folder.rglob("*.jinja"))):
        template = file.read_text(encoding="utf-8")
        if template in texts:
            continue
        texts.add(template)
        kinds = {"text": False, "pictures": True} if KNOWS_PICTURES.search(template) else {"text": False}
        for kind, pictures in kinds.items():
            rows.append((file.stem, kind, planned(template, pictures), *tried(renderer, template, pictures)))
    counts = Counter((kind, *results) for _, kind, *results, _ in rows)
    show(
        [
            Table("templates", "Templates", ("template", "chat", "planned", "started", "how or why"), tuple(rows)),
            Table("counts", f"{len(texts)} templates", ("chat", "planned", "started", "templates"),
                  tuple((*key, count) for key, count in sorted(counts.items()))),
        ]
    )  # fmt: skip
    disagree = [row for row in rows if (row[2] == "refused") != (row[3] == "refused")]
    return int(bool(disagree) or any(row[3] in WRONG for row in rows))


if __name__ == "__main__":
    sys.exit(main())
