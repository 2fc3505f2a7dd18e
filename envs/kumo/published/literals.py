"""The variables of a Python module that holds data only, read from its syntax tree; nothing is executed.

The published domains are such modules: lists, sets and dictionaries of strings and numbers. Also read are ``set()`` and
``set([...])``, and the one comprehension that occurs, ``[x for x in NAMES if x not in [...] and 'part' not in x]``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from envs.files import is_unicode

LARGEST = 256 * 1024
"""Bytes of a module; the largest published one has 35 kB."""
DEEPEST = 12
"""Levels of nesting of a value; the published ones have five."""
MOST_NUMBER = 1e15
"""The largest number, of either sign."""


class Names(tuple[Any, ...]):
    """What a set holds, in the order of the file, which Python's own sets forget."""

    __slots__ = ()


def is_plain(value: object) -> bool:
    """Whether a value is a text that UTF-8 can hold, or a number of the size of a measurement."""
    if isinstance(value, str):
        return is_unicode(value)
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST_NUMBER


class NotDataError(ValueError):
    """A module holds anything but data; the message says where."""


def parse_module(text: str) -> ast.Module:
    """A module's syntax tree; parsing executes nothing.

    Raises:
        NotDataError: it is no Python, or nested too deeply.
    """
    try:
        return ast.parse(text)
    except SyntaxError as cause:
        where = f"line {cause.lineno}: " if cause.lineno else ""
        raise NotDataError(f"{where}is no Python: {cause.msg}") from None
    except ValueError as cause:
        raise NotDataError(f"is no Python: {cause}") from None
    except (RecursionError, MemoryError):  # how the parser ends when nested too deeply
        raise NotDataError("is nested too deeply") from None


def read_variables(text: str) -> Mapping[str, Any]:
    """The variables that a module of data assigns: strings, numbers, tuples, lists, dictionaries and sets (as ``Names``).

    Raises:
        NotDataError: it holds anything else; the line is named.
    """
    values: dict[str, Any] = {}
    for statement in parse_module(text).body:
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_docstring:
            continue
        if not isinstance(statement, ast.Assign):
            raise _not_data(statement)
        names = _assigned(statement)
        value = _value(statement.value, values, 0)
        values.update(dict.fromkeys(names, value))
    return values


def _assigned(statement: ast.Assign) -> list[str]:
    """The names of the variables that a statement assigns, not ``a.b`` or ``a, b``."""
    names = []
    for target in statement.targets:
        if not isinstance(target, ast.Name):
            raise _not_data(statement)
        names.append(target.id)
    return names


def _value(node: ast.expr, known: Mapping[str, Any], depth: int) -> Any:
    if depth > DEEPEST:
        raise NotDataError(f"line {node.lineno}: is nested more than {DEEPEST} levels deep")
    match node:
        case ast.Constant(value=str() | int() | float() as value) if is_plain(value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if is_plain(value):
            return -value
        case ast.List(elts=items):
            return [_value(item, known, depth + 1) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item, known, depth + 1) for item in items)
        case ast.Set(elts=items):
            return _names([_value(item, known, depth + 1) for item in items], node)
        case ast.Dict(keys=keys, values=items):
            pairs = [(_key(key, node, known, depth), item) for key, item in zip(keys, items, strict=True)]
            return {key: _value(item, known, depth + 1) for key, item in pairs}
        case ast.Call(func=ast.Name(id="set"), args=args, keywords=[]) if len(args) < 2 and "set" not in known:
            held = _value(args[0], known, depth + 1) if args else []
            if isinstance(held, list | tuple):
                return _names(list(held), node)
        case ast.ListComp(elt=ast.Name(id=name), generators=[ast.comprehension() as loop]):
            return _comprehension(name, loop, known, node)
    raise _not_data(node)


def _key(key: ast.expr | None, mapping: ast.Dict, known: Mapping[str, Any], depth: int) -> Any:
    value = _value(key, known, depth + 1) if key is not None else None
    if not _hashable(value):
        raise _not_data(key or mapping)
    return value


def _hashable(value: Any) -> bool:
    return isinstance(value, str | int | float) or (type(value) is tuple and all(map(_hashable, value)))


def _names(items: list[Any], node: ast.AST) -> Names:
    if not all(map(_hashable, items)):
        raise _not_data(node)
    return Names(dict.fromkeys(items))


def _comprehension(name: str, loop: ast.comprehension, known: Mapping[str, Any], node: ast.expr) -> list[Any]:
    """``[x for x in NAMES if ...]`` with a list assigned before."""
    match loop:
        case ast.comprehension(target=ast.Name(id=target), iter=ast.Name(id=source), is_async=0) if target == name:
            items = known.get(source)
            if isinstance(items, list | Names) and all(isinstance(item, str) for item in items):
                return [item for item in items if all(_holds(test, name, item) for test in loop.ifs)]
    raise _not_data(node)


def _holds(test: ast.expr, name: str, item: str) -> bool:
    """Whether a condition of a comprehension holds: ``x not in [...]``, ``'part' not in x``, and several of these."""
    match test:
        case ast.BoolOp(op=ast.And(), values=tests):
            return all(_holds(each, name, item) for each in tests)
        case ast.Compare(left=ast.Name(id=left), ops=[ast.NotIn()], comparators=[ast.List() as listed]) if left == name:
            return item not in _value(listed, {}, 0)
        case ast.Compare(left=ast.Constant(value=str() as part), ops=[ast.NotIn()], comparators=[ast.Name(id=right)]):
            if right == name:
                return part not in item
    raise _not_data(test)


def _not_data(node: ast.AST) -> NotDataError:
    return NotDataError(f"line {getattr(node, 'lineno', '?')}: {type(node).__name__} is code, not data; nothing is run")
