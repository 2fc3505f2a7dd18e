"""Reference pages made from the code: docs/ledger.md (all columns) and docs/configuration.md (all keys).

    python -m cluster.config.reference

writes both into the docs folder of this checkout; a test sees that they are current.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import yaml

from cluster.config.registry import BUILT_IN, TYPE, class_of
from cluster.config.settings import ClusterSettings, ReplicaNeeds
from cluster.config.validation import describe_type
from cluster.engines.base import Sampling
from evals.ledger_columns import (
    SCHEMA_VERSION,
    Column,
    EpisodeRow,
    LabelRow,
    MessageRow,
    PartRow,
    TurnRow,
    columns_of,
    struct_of,
)
from evals.records import PLAN_SCHEMA
from evals.types import Episode

ROOT = Path(__file__).resolve().parents[2]

LEDGER = f"""\
# The ledger

This page is made from the code by `python -m cluster.config.reference`. The schema version is {SCHEMA_VERSION}.

A run directory holds `plan.parquet` (one row per planned episode) and `episodes/*.parquet` (the ledger: one row per
attempt at an episode). Parts of the ledger are immutable and zstd-compressed. Plan and parts state their schema version
in the Parquet metadata (`raycade.schema`); a version of raycade reads all earlier versions and refuses later ones.

Whoever reads the parts without raycade minds two things:

- **Attempts.** Failed episodes may be played again (`retry_failed=true`). Then an `episode_id` occurs once for each
  `attempt`, and the highest one counts.
- **Merged parts.** While a run goes on, small parts are merged into larger ones, and those that were merged stay for up to
  ten minutes. A merged part lists their file names (JSON) in its metadata under `raycade.replaces`; skip these.

`evals.ledger.open_ledger(run_dir)` does both, and yields rows in batches:

```python
import pyarrow.parquet as pq
from evals.ledger import open_ledger

ledger = open_ledger("runs/mine", pq.read_table("runs/mine/plan.parquet"))
print(ledger.damage)  # what cannot be read, or is not in the plan; it does not count
for batch in ledger.batches(["task", "success"]):
    print(batch.num_rows)
```

Columns marked *stable* keep name, type and meaning within a schema version; a suite's own, within the suite's version.
Others may gain values at any time.
"""

CONFIGURATION = """\
# Configuration

This page is made from the code by `python -m cluster.config.reference`.

Every key can be set on the command line by its path (`raycade run suite.repeats=1 cluster.replicas=4`); groups are
chosen by name (`suite=kumo model=tiny cluster=ray tracker=wandb`), one file of `conf/` each. The defaults below are the
classes' own; the files in `conf/` may set others. A suite's keys decide which episodes are planned. *Part of the id* says
whether a key of the model is part of each episode's id: a run directory keeps to those that are.
"""


# --- the ledger ------------------------------------------------------------------------------------------------------

ROWS: Mapping[str, tuple[type[tuple[object, ...]], str]] = {
    "Episodes": (EpisodeRow, "Each row of the ledger."),
    "Turns": (TurnRow, "Each item of an episode's `turns`."),
    "Messages": (MessageRow, "Each item of a turn's `prompt`."),
    "Parts of messages": (PartRow, "Each item of a message's `parts`."),
    "Labels": (LabelRow, "Each item of a turn's `labels`."),
}


def ledger_page() -> str:
    """docs/ledger.md."""
    sections = [LEDGER]
    for title, (row, what) in ROWS.items():
        sections.append(f"## {title}\n\n{what}\n\n{_column_table(columns_of(row))}")
    for name in sorted(BUILT_IN["suite"].keys() - {"bundle"}):
        suite = class_of("suite", {TYPE: name})
        columns = {f"{suite.name}.{column}": declared for column, declared in suite.columns.items()}
        if columns:
            what = f"What the suite `{name}` (version {suite.version}) adds; null in rows of other suites."
            sections.append(f"## Columns of {name}\n\n{what}\n\n{_column_table(columns)}")
    helps = {name: column.help for name, column in columns_of(EpisodeRow).items()} | field_helps(Episode)
    helps |= {"identity": "Hash of the suite's prompts and settings, the model, its sampling and decoding."}
    rows = [(f"`{item.name}`", _type(item.type), helps.get(item.name, "")) for item in PLAN_SCHEMA]
    sections.append(f"## The plan\n\nEach row of `plan.parquet`.\n\n{_table(('column', 'type', 'meaning'), rows)}")
    return "\n".join(sections)


def _column_table(columns: Mapping[str, Column]) -> str:
    rows = [
        (f"`{name}`", _type(column.type), column.unit, column.better, "yes" if column.stable else "no", column.help)
        for name, column in columns.items()
    ]
    return _table(("column", "type", "unit", "better", "stable", "meaning"), rows)


def _type(kind: pa.DataType) -> str:
    for title, (row, _) in ROWS.items():
        if kind == struct_of(row):
            return f"[{title.lower()}](#{title.lower().replace(' ', '-')})"
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "struct of " + ", ".join(f"{item.name} ({_type(item.type)})" for item in kind)
    return str(kind)


# --- the configuration -----------------------------------------------------------------------------------------------


def configuration_page() -> str:
    """docs/configuration.md."""
    sections = [CONFIGURATION, f"## Root\n\n{_table(('key', 'default', 'meaning'), list(_root_keys()))}"]
    for name in sorted(BUILT_IN["suite"].keys() - {"bundle"}):
        cls = class_of("suite", {TYPE: name})
        sections.append(f"## suite={name}\n\n{_keys('suite', cls, field_helps(cls))}")
    bundle = "A suite made of suites: `name` and `suites`, a list of sections as above. See conf/suite/demo.yaml."
    sections.append(f"## suite.type=bundle\n\n{bundle}\n")
    for name in sorted(BUILT_IN["model.engine"]):
        engine: Any = class_of("model.engine", {TYPE: name})
        keys = _keys("model.engine", engine, _documented(engine.__init__), engine.operational, ("sampling",))
        sections.append(f"## model.engine.type={name}\n\n{keys}")
    sections.append(f"## model.sampling\n\n{_keys('model.sampling', Sampling, field_helps(Sampling), frozenset())}")
    for title, cls in (("model.replica", ReplicaNeeds), ("cluster", ClusterSettings)):
        helps = _comments(ROOT / "conf/cluster/local.yaml" if title == "cluster" else None) | field_helps(cls)
        sections.append(f"## {title}\n\n{_keys(title, cls, helps, frozenset(get_type_hints(cls)))}")
    for name in sorted(BUILT_IN["tracker"]):
        cls = class_of("tracker", {TYPE: name})
        sections.append(f"## tracker={name}\n\n{_keys('tracker', cls, _documented(cls.__init__), every_key(cls))}")
    return "\n".join(sections)


def every_key(cls: type) -> frozenset[str]:
    """All arguments of a class's constructor."""
    return frozenset(inspect.signature(cls).parameters)


def _keys(
    section: str,
    cls: type,
    helps: Mapping[str, str],
    not_in_ids: frozenset[str] | None = None,
    given: Sequence[str] = (),
) -> str:
    """The arguments of a class's constructor; with ``not_in_ids``, whether they are part of ids."""
    rows = []
    for parameter in inspect.signature(cls, eval_str=True).parameters.values():
        if parameter.name not in given and "Callable" not in str(parameter.annotation):
            default = "required" if parameter.default is parameter.empty else _value(parameter.default)
            kind = describe_type(parameter.annotation)
            row = [f"`{section}.{parameter.name}`", kind, default, helps.get(parameter.name, "")]
            if not_in_ids is not None:
                row.insert(3, "no" if parameter.name in not_in_ids else "yes")
            rows.append(row)
    titles = ["key", "type", "default", *(["part of the id"] if not_in_ids is not None else []), "meaning"]
    return _table(titles, rows)


def _root_keys() -> Iterator[tuple[str, str, str]]:
    """The keys of conf/config.yaml with the comments above them."""
    comment: list[str] = []
    for line in (ROOT / "conf/config.yaml").read_text().splitlines():
        if line.startswith("#"):
            comment.append(line.lstrip("# "))
        elif (found := re.fullmatch(r"(\w+): (.+)", line)) and found[1] not in ("defaults", "hydra"):
            yield f"`{found[1]}`", f"`{found[2]}`", " ".join(comment)
            comment = []
        else:
            comment = []


def _comments(path: Path | None) -> dict[str, str]:
    """The comments behind the keys of a YAML file."""
    lines = path.read_text().splitlines() if path is not None else []
    found = (re.fullmatch(r"(\w+):[^#]*# (.+)", line) for line in lines)
    return {match[1]: match[2][:1].upper() + match[2][1:] + "." for match in found if match}


def _value(value: object) -> str:
    plain = list(value) if isinstance(value, tuple) else value
    return f"`{yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix('...' + chr(10)).strip()}`"


# --- what docstrings say ---------------------------------------------------------------------------------------------


def field_helps(cls: type) -> dict[str, str]:
    """What a class's docstring, and the docstrings below its fields, say of each field; base classes included."""
    helps: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        if each.__module__.partition(".")[0] not in ("envs", "evals", "cluster"):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        assert isinstance(body, ast.ClassDef)
        for statement, following in zip(body.body, body.body[1:], strict=False):
            if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
                value = following.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    helps[ast.unparse(statement.target)] = _sentence(value.value)
        helps |= _documented(each)
    return helps


def _documented(documented: object) -> dict[str, str]:
    """The entries of a docstring's ``Args`` or ``Attributes``."""
    found = re.search(r"^(?:Args|Attributes):\n((?:[ ]+.*\n?|\n)+)", inspect.getdoc(documented) or "", re.MULTILINE)
    entries = re.split(r"^ {4}(\w+): ", found[1] if found else "", flags=re.MULTILINE)[1:]
    return {name: _sentence(text) for name, text in zip(entries[::2], entries[1::2], strict=True)}


def _sentence(text: str) -> str:
    words = " ".join(text.split()).replace("``", "`")
    return words[:1].upper() + words[1:]


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(columns)
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


PAGES = {"ledger.md": ledger_page, "configuration.md": configuration_page}


def main() -> None:
    """Write both pages."""
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page())


if __name__ == "__main__":
    main()
