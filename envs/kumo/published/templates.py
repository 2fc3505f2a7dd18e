"""The published prompts as templates, read from the syntax trees of the domains' and the agent's source; nothing is executed.

A template is a tuple of pieces: text, or a ``Slot`` that is filled from the task or the game.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.kumo.published.literals import NotDataError, parse_module


@dataclass(frozen=True)
class Slot:
    """A place in a template: ``truths``, ``actions``, ``book`` or ``observation``."""

    name: str


Template = tuple[str | Slot, ...]

_SLOTS = {
    "self.env.truth_space": "truths",
    "self.env.action_space": "actions",
    "self.T": "truths",
    "self.A": "actions",
    "book": "book",
    "observation": "observation",
}
"""What the expressions of the published f-strings stand for."""


@dataclass(frozen=True)
class TurnTemplates:
    """What the published agent says in each turn."""

    instruction: Template
    """Ends every message that is sent, with ``actions`` and ``truths``."""
    outcome: Template
    """Before it from the second turn on, with ``observation``."""
    joint: str
    """Between the two."""
    begin: str
    """Stands in the history in place of the first turn's instruction."""


def fill(template: Template, values: Mapping[str, str]) -> str:
    """A template's text."""
    return "".join(piece if isinstance(piece, str) else values[piece.name] for piece in template)


def to_json(template: Template) -> list[str | dict[str, str]]:
    """A template as JSON."""
    return [piece if isinstance(piece, str) else {"slot": piece.name} for piece in template]


def from_json(pieces: Any) -> Template:
    """The inverse of ``to_json``.

    Raises:
        ValueError: it is no template.
    """
    if not isinstance(pieces, list):
        raise ValueError("a template must be a list")
    template: list[str | Slot] = []
    for piece in pieces:
        name = piece.get("slot") if isinstance(piece, dict) else None
        if not isinstance(piece, str) and name not in _SLOTS.values():
            raise ValueError(f"a template holds {str(piece)[:40]!r}")
        template.append(piece if isinstance(piece, str) else Slot(str(name)))
    return tuple(template)


def system_template(text: str, env: str) -> tuple[Template, str]:
    """The system prompt of a domain with its book, and the module that the domain's data stands in.

    Args:
        text: Source of the module that registers the domain.
        env: The domain's class, such as ``MedicalEnv``.

    Raises:
        NotDataError: the source is not built like the published ones.
    """
    tree = parse_module(text)
    modules = list(_data_modules(tree))
    # The prompt is assigned once, and the book added to it where one is given.
    prompt = _method(tree, env, "get_system_prompt")
    start = list(_assigned(prompt, "system_prompt"))
    with_book = [value for value in _added(prompt, "system_prompt") if _slots_of(value) == ["book"]]
    if [len(modules), len(start), len(with_book)] != [1, 1, 1]:
        raise NotDataError(f"{env}.get_system_prompt is not built like the published ones")
    return (*_template(start[0]), *_template(with_book[0])), modules[0]


def turn_templates(text: str) -> TurnTemplates:
    """What the published agent says in each turn.

    Args:
        text: Source of its module.

    Raises:
        NotDataError: the source is not built like the published one.
    """
    response = _method(parse_module(text), "VanillaAgent", "response")
    instructions = list(_assigned(response, "cur_inst"))
    joints = list(_joints(response))
    contents = list(_contents(response))
    outcomes = [value for value in contents if _slots_of(value) == ["observation"]]
    begins = [value.value for value in contents if isinstance(value, ast.Constant)]
    if [len(found) for found in (instructions, joints, outcomes, begins)] != [1, 1, 1, 1]:
        raise NotDataError("VanillaAgent.response is not built like the published one")
    return TurnTemplates(_template(instructions[0]), _template(outcomes[0]), str(joints[0]), str(begins[0]))


def _data_modules(tree: ast.Module) -> Iterator[str]:
    """The last names of the modules below ``env.data`` that a module imports from."""
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.startswith("env.data."):
            yield node.module.rpartition(".")[2]


def _method(tree: ast.Module, cls: str, name: str) -> ast.FunctionDef:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == cls:
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == name:
                    return method
    raise NotDataError(f"has no {cls}.{name}")


def _assigned(function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    """What a variable is set to."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and [_name(target) for target in node.targets] == [name]:
            yield node.value


def _added(function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    """What is added to a variable."""
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) and _name(node.target) == name:
            yield node.value


def _joints(function: ast.FunctionDef) -> Iterator[Any]:
    """The constants that are added to something with another text behind them: ``message += "..." + text``."""
    for node in ast.walk(function):
        if not isinstance(node, ast.AugAssign):
            continue
        added = node.value
        if isinstance(added, ast.BinOp) and isinstance(added.left, ast.Constant):
            yield added.left.value


def _name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ""


def _contents(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """The ``content`` of every message of the role ``user`` that a function writes out."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Dict):
            continue
        held = _held(node)
        role, content = held.get("role"), held.get("content")
        of_user = isinstance(role, ast.Constant) and role.value == "user"
        if of_user and content is not None and _is_text(content):
            yield content


def _held(node: ast.Dict) -> dict[Any, ast.expr]:
    """The values that a dictionary has under constant keys."""
    held = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant):
            held[key.value] = value
    return held


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _template(node: ast.expr) -> Template:
    """The pieces of an f-string whose expressions are all known."""
    pieces: list[str | Slot] = []
    for part in _parts(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            pieces.append(part.value)
        elif (slot := _slot(part)) is not None:
            pieces.append(Slot(slot))
        else:
            raise NotDataError(f"line {part.lineno}: this part of a prompt is not known")
    return tuple(pieces)


def _parts(node: ast.expr) -> Sequence[ast.expr]:
    return node.values if isinstance(node, ast.JoinedStr) else [node]


def _slot(node: ast.expr) -> str | None:
    if not isinstance(node, ast.FormattedValue) or node.conversion != -1 or node.format_spec is not None:
        return None
    names: list[str] = []
    value = node.value
    while isinstance(value, ast.Attribute):
        names, value = [value.attr, *names], value.value
    return _SLOTS.get(".".join([value.id, *names])) if isinstance(value, ast.Name) else None


def _slots_of(node: ast.expr) -> list[str | None]:
    return [_slot(part) for part in _parts(node) if isinstance(part, ast.FormattedValue)]
