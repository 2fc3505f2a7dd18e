"""A folder to upload to the Hugging Face Hub: episodes in Parquet with images, their card, and scores for model pages.

dataset/README.md                    the card: licenses, configurations, columns, scores
dataset/data/SUITE/*.parquet         one row for each episode, of all players
models/MODEL/.eval_results/*.yaml    the scores, for the repository of a model that has one
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from jinja2 import Environment, StrictUndefined

from envs.files.parquet import local
from envs.printable import printable
from evals.errors import SuiteError
from evals.exchange.carried import NAME, carry_episode, row_json
from evals.exchange.scores import Score, known, main_score, scores_of
from evals.exchange.source import EARLIER_ATTEMPTS, PROJECT, Said, Source, messages_of, picture_key, safe_name
from evals.ledger.columns import COLUMNS

LOSS = (
    EARLIER_ATTEMPTS,
    "Columns of a suite that are no numbers, truth values or texts, and label probabilities, stand in `raycade` alone.",
    "Pictures are repeated in each episode that shows them.",
)
FILE_BYTES = 400 * 2**20
"""A larger Parquet file is followed by another one."""
SPLIT = "test"

_IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
_MESSAGE = pa.struct(
    {
        "role": pa.string(),
        "content": pa.list_(pa.struct({"type": pa.string(), "text": pa.string()})),
        "reasoning": pa.string(),
        "turn": pa.int32(),
        "action": pa.string(),
        "rule": pa.string(),
        "finish": pa.string(),
    }
)
_OWN = {
    "model": (pa.string(), "string", "ORGANIZATION/NAME of the model; raycade/NAME for a built-in player."),
    "messages": (
        pa.list_(_MESSAGE),
        "list of messages",
        "The chat; a part of type `image` stands for the next of `images`.",
    ),
    "images": (pa.list_(_IMAGE), "list of images", "The pictures in the order in which they were shown."),
    NAME: (pa.string(), "string", "The episode as planned and its whole ledger row, JSON."),
}
"""Columns that a dataset has besides the ledger's: type, its name for people, and meaning."""


def export_huggingface(sources: Sequence[Source], folder: Path, repository: str) -> list[Path]:
    """Write the dataset of a run.

    Args:
        sources: All suites as all players played them.
        folder: Where to.
        repository: ORGANIZATION/NAME of the dataset on the Hub; scores for model pages need it, and are left out without.
    """
    suites: dict[str, list[Source]] = {}
    for source in sources:
        suites.setdefault(source.suite.name, []).append(source)
    written = list[Path]()
    counts: dict[str, int] = {}
    data: dict[str, list[str]] = {}
    for name, own in suites.items():
        files, counts[name] = _write_episodes(own, folder, Path("dataset") / "data" / safe_name(name))
        data[name] = [path.relative_to("dataset").as_posix() for path in files]
        written += files
    scores = [(source, scores_of(source)) for source in sources]
    card = Path("dataset") / "README.md"
    (folder / card).parent.mkdir(parents=True, exist_ok=True)
    (folder / card).write_text(_card(suites, data, sum(counts.values()), scores), encoding="utf-8")
    written.append(card)
    if repository:
        written += _write_results(scores, folder, repository)
    return written


# --- episodes --------------------------------------------------------------------------------------------------------


def _schema(source: Source) -> pa.Schema:
    common = {name: column.type for name, column in COLUMNS.items() if name != "turns"}
    own = {name: column.type for name, column in source.suite.columns.items() if _is_plain(column.type)}
    extra = {name: kind for name, (kind, _, _) in _OWN.items()}
    # a suite may call a column as the dataset calls one of its own
    fields = [pa.field(name, kind) for name, kind in {**common, **own, **extra}.items()]
    features = {item.name: _feature(item.type) for item in fields}
    return pa.schema(fields, metadata={b"huggingface": json.dumps({"info": {"features": features}}).encode()})


def _is_plain(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string)
    return any(test(kind) for test in tests)


def _feature(kind: pa.DataType) -> dict[str, Any]:
    """What the package `datasets` calls a type."""
    if kind == _IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return {"_type": "List", "feature": _feature(kind.value_type)}
    if pa.types.is_struct(kind):
        return {item.name: _feature(item.type) for item in kind}
    names = {pa.float64(): "float64", pa.float32(): "float32", pa.bool_(): "bool"}
    return {"_type": "Value", "dtype": names.get(kind, str(kind))}


def _write_episodes(sources: Sequence[Source], folder: Path, home: Path) -> tuple[list[Path], int]:
    """Write one suite's episodes; the files, and how many episodes they hold.

    A file's name ends with a hash of its rows: the package `datasets` keeps what it has read under the names that the card
    lists, and would else give one run's episodes for another's.
    """
    (folder / home).mkdir(parents=True, exist_ok=True)
    schema = _schema(sources[0])
    unnamed = folder / home / "unnamed.parquet"
    written = list[Path]()
    count = 0
    batches = _batches(sources)
    for first in batches:
        digest = hashlib.sha256()
        with pq.ParquetWriter(local(unnamed), schema, compression="zstd") as writer:
            for rows in itertools.chain([first], batches):
                try:
                    table = pa.Table.from_pylist(rows, schema)
                except (pa.ArrowException, OverflowError) as error:  # a foreign ledger's columns may be of any type
                    raise SuiteError(sources[0].suite.name, "export its rows", error) from error
                writer.write_table(table)
                digest.update("".join(row[NAME] for row in rows).encode())
                count += len(rows)
                if unnamed.stat().st_size > FILE_BYTES:
                    break
        written.append(home / f"{SPLIT}-{len(written):05d}-{digest.hexdigest()[:12]}.parquet")
        unnamed.rename(folder / written[-1])
    return written, count


def _batches(sources: Sequence[Source], size: int = 32) -> Iterator[list[dict[str, Any]]]:
    """Rows of the dataset, a row group at a time."""
    rows = list[dict[str, Any]]()
    for source in sources:
        for row in source.rows():
            rows.append(_row(source, row))
            if len(rows) == size:
                yield rows
                rows = []
    if rows:
        yield rows


def _row(source: Source, row: Mapping[str, Any]) -> dict[str, Any]:
    images = list[dict[str, Any]]()
    messages = [_message(source, said, images) for said in messages_of(row["turns"])]
    carried = row_json(carry_episode(source, row))
    return {**row, "model": source.model_id, "messages": messages, "images": images, NAME: carried}


def _message(source: Source, said: Said, images: list[dict[str, Any]]) -> dict[str, Any]:
    content = [_content(source, part, images) for part in said.parts]
    message = {"role": said.role, "content": content, "turn": said.turn}
    if said.reply is None:
        return message
    return message | {name: said.reply[name] for name in ("reasoning", "action", "rule", "finish")}


def _content(source: Source, part: Mapping[str, Any], images: list[dict[str, Any]]) -> dict[str, Any]:
    """A text, or a picture, which is put behind the other images."""
    if part["picture"] is None:
        return {"type": "text", "text": part["text"]}
    key = picture_key(part["picture"])
    picture = source.png(part["picture"])
    if picture is None:
        return {"type": "text", "text": f"[a picture that cannot be rendered: {key}]"}
    images.append({"bytes": picture, "path": f"{key}.png"})
    return {"type": "image", "text": None}


# --- card and scores -------------------------------------------------------------------------------------------------


def _card(
    suites: Mapping[str, Sequence[Source]],
    data: Mapping[str, Sequence[str]],
    total: int,
    scores: Sequence[tuple[Source, Sequence[Score]]],
) -> str:
    header = {
        "license": _licenses(suites) or "unknown",
        "pretty_name": "Episodes of " + ", ".join(own[0].title for own in suites.values()),
        "task_categories": ["reinforcement-learning", "text-generation"],
        "tags": [PROJECT, "games", "reasoning", "evaluation"],
        "configs": [
            {"config_name": name, "data_files": [{"split": SPLIT, "path": files}]}
            for name, files in data.items()
            if files
        ],
    }
    mains = [(source, main_score(found)) for source, found in scores]
    template = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False)
    environment.filters["cell"] = _cell
    return environment.from_string(template).render(
        header=yaml.safe_dump(header, sort_keys=False, allow_unicode=False),
        total=total,
        scores=[(source, main, _shown(main)) for source, main in mains if main is not None],
        suites=[own[0].suite for own in suites.values()],
        columns=_columns_told(suites),
        loss=LOSS,
    )


def _licenses(suites: Mapping[str, Sequence[Source]]) -> list[str]:
    """The licenses of all suites, in lower case, as the Hub calls them."""
    licenses: set[str] = set()
    for own in suites.values():
        licenses.update(part for part in own[0].suite.license.split(" AND ") if part)
    return sorted(name.lower() for name in licenses)


def _columns_told(suites: Mapping[str, Sequence[Source]]) -> list[tuple[str, str, str]]:
    """Name, type and meaning of the columns of every suite, then of those that one suite has."""
    columns = [(name, str(column.type), column.help) for name, column in COLUMNS.items() if name != "turns"]
    columns += [(name, shown, meaning) for name, (_, shown, meaning) in _OWN.items()]
    for name, own in suites.items():
        for key, column in own[0].suite.columns.items():
            if _is_plain(column.type):
                columns.append((f"{key} ({name})", str(column.type), column.help))
    return columns


def _cell(text: str) -> str:
    """Text of anybody in a cell of a Markdown table."""
    plain = " ".join(printable(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return plain.replace("\\", "\\\\").replace("|", "\\|")


def _shown(score: Score) -> str:
    estimate = score.estimate
    interval = f" [{estimate.low:.3f}, {estimate.high:.3f}]" if estimate.has_interval else ""
    return f"{estimate.mean:.3f}{interval}"


def _write_results(scores: Sequence[tuple[Source, Sequence[Score]]], folder: Path, repository: str) -> list[Path]:
    """Scores in the form that model pages read, for each model that is one of the Hub's."""
    written = []
    for source, found in scores:
        main = main_score(found)
        if main is None or source.model_id.startswith(f"{PROJECT}/"):
            continue
        low, high = known(main.estimate.low), known(main.estimate.high)
        interval = "" if low is None or high is None else f", 95 % interval {100 * low:.1f} to {100 * high:.1f}"
        entry = {
            "dataset": {"id": repository, "task_id": source.suite.name},
            "value": round(100 * main.estimate.mean, 2),
            "date": source.moment.date().isoformat(),
            "source": {"url": f"https://huggingface.co/datasets/{repository}", "name": f"{PROJECT} episodes"},
            "notes": f"success in percent of {main.estimate.n} episodes{interval}",
        }
        home = Path("models") / safe_name(source.model_id.replace("/", "__")) / ".eval_results"
        (folder / home).mkdir(parents=True, exist_ok=True)
        path = home / f"{PROJECT}_{safe_name(source.suite.name)}.yaml"
        (folder / path).write_text(yaml.safe_dump([entry], sort_keys=False), encoding="utf-8")
        written.append(path)
    return written
