"""One-line changes of functions, such as a tired programmer might make: a small bug each, or one that changes nothing."""

from __future__ import annotations

import ast
import itertools
import random
from dataclasses import dataclass
from pathlib import Path

OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
"""What an operator is written as, and what it becomes."""
OPPOSITES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sorted": "list",
    "reversed": "list",
    "set": "list",
}
"""Functions, and what is called in their place."""
CLEANERS = frozenset(
    {"strip", "lstrip", "rstrip", "lower", "upper", "casefold", "copy", "removeprefix", "removesuffix"}
)
"""Methods that are left out."""
PLAIN = (ast.Name, ast.Attribute, ast.Subscript)
"""What may be exchanged with its neighbor: a mixed-up argument, not a type error."""


@dataclass(frozen=True)
class Change:
    """Other text for a few characters of one line."""

    file: str
    line: int
    start: int
    """Offset in the file's bytes; ``end`` likewise."""
    end: int
    text: str
    kind: str

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """The line, and the part of it that changes."""
        line = source.decode().splitlines()[self.line - 1].strip()
        return f"{line}    # {source[self.start : self.end].decode().strip()!r} -> {self.text!r}"


def changes_in(root: Path, file: str, share: float, seed: int) -> list[Change]:
    """At most one change for each line of a file's functions, drawn by ``seed``.

    Args:
        root: Of the checkout.
        file: Below it.
        share: Of the lines that have a change.
        seed: Which of a line's changes, and which lines.
    """
    source = (root / file).read_bytes()
    of_line: dict[int, list[Change]] = {}
    for change in all_changes(file, source):
        of_line.setdefault(change.line, []).append(change)
    rng = random.Random(f"{seed} {file}")
    drawn = []
    for line in sorted(of_line):
        change = rng.choice(of_line[line])
        if rng.random() < share and _can_be_parsed(change.applied(source)):
            drawn.append(change)
    return drawn


def all_changes(file: str, source: bytes) -> list[Change]:
    """Each change of a file's functions, in the order of syntax."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    return finder.found


def _can_be_parsed(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    """All changes of a file's functions; what runs at import is left alone, and so is what numba compiles."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Change] = []
        self.in_function = False

    # --- what is looked at ---

    def visit_Module(self, node: ast.Module | ast.ClassDef) -> None:
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_Module(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if any("jit" in ast.unparse(decorator) for decorator in node.decorator_list):
            return
        outer, self.in_function = self.in_function, True
        for statement in node.body:
            is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_docstring:
                self.visit(statement)
        self.in_function = outer

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    # --- what may change ---

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self._operator("comparison", left, operator, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATORS and not (_is_text(node.left) or _is_text(node.right)):
            self._operator("arithmetic", node.left, node.op, node.right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator("and, or", left, node.op, right)
        self._replace("condition left out", node, self._end(node.values[-2]), self._end(node.values[-1]), "")
        self._replace("condition left out", node, self._start(node.values[0]), self._start(node.values[1]), "")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace("not", node, self._start(node), self._start(node.operand), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._node("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            self._node("constant", node, str(node.value + 1))
        elif isinstance(node.value, float):
            self._node("constant", node, repr(node.value * 2 + 0.25))

    def visit_If(self, node: ast.If) -> None:
        self._node("case left out", node.test, "False")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        for branch in (node.body, node.orelse):
            self._node("one case for both", node, f"({self._text(branch)})")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._node("filter left out", condition, "True")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name) and function.id in OPPOSITES and not node.keywords:
            self._node("another function", function, OPPOSITES[function.id])
        if isinstance(function, ast.Attribute) and function.attr in CLEANERS:
            self._replace("step left out", node, self._end(function.value), self._end(node), "")
        for keyword in node.keywords:
            if keyword.arg in ("key", "reverse", "default") and node.args:
                self._replace("keyword left out", keyword.value, self._end(node.args[-1]), self._end(keyword.value), "")
        self._exchange(node.args)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.Tuple):
            self._exchange(node.value.elts)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        self._node("statement left out", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._node("statement left out", node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            self._node("statement left out", node, "pass")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._node("statement left out", node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._node("statement left out", node, "pass")

    # --- where it stands ---

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        return self.source[self._start(node) : self._end(node)].decode()

    def _node(self, kind: str, node: ast.expr | ast.stmt, text: str) -> None:
        self._replace(kind, node, self._start(node), self._end(node), text)

    def _operator(self, kind: str, left: ast.expr, operator: ast.AST, right: ast.expr) -> None:
        """Another operator between two operands; brackets and comments may stand there, too."""
        written, other = OPERATORS[type(operator)]
        start = self._end(left)
        place = self.source[start : self._start(right)].find(written.encode())
        if place >= 0:
            self._replace(kind, left, start + place, start + place + len(written), other)

    def _exchange(self, values: list[ast.expr]) -> None:
        for left, right in itertools.pairwise(values):
            if isinstance(left, PLAIN) and isinstance(right, PLAIN):
                text = f"{self._text(right)}, {self._text(left)}"
                self._replace("exchanged", left, self._start(left), self._end(right), text)

    def _replace(self, kind: str, node: ast.expr | ast.stmt, start: int, end: int, text: str) -> None:
        """Note a change, if it leaves the lines of the file as they are."""
        if self.in_function and b"\n" not in self.source[start:end] and "\n" not in text:
            line = self.source.count(b"\n", 0, start) + 1
            self.found.append(Change(self.file, line, start, end, text, kind))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
