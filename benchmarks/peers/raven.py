"""The generator of a checkout of RAVEN, converted from Python 2 in a temporary copy; with its files, or without."""

import argparse
import ast
import builtins
import io
import shutil
import sys
import tempfile
import time
from pathlib import Path

from protocol import serve

copy = Path(tempfile.mkdtemp(prefix="raven-"))
shutil.copytree(Path(sys.argv[1], "src", "dataset"), copy / "dataset")
from lib2to3.refactor import RefactoringTool, get_fixers_from_package  # noqa: E402


class Division(ast.NodeTransformer):
    """Whole numbers divided by whole numbers are whole, as in Python 2."""

    def visit_BinOp(self, node):  # noqa: D102
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div):
            return node
        return ast.Call(ast.Name("python2_division", ast.Load()), [node.left, node.right], [])


def python2_division(one, other):
    """``one / other`` in Python 2."""
    return one // other if is_whole(one) and is_whole(other) else one / other


def is_whole(value):
    """Whether a number, or an array, is of whole numbers."""
    return isinstance(value, int) or (hasattr(value, "dtype") and value.dtype.kind in "iu")


builtins.python2_division = python2_division
tool = RefactoringTool(get_fixers_from_package("lib2to3.fixes"))
for path in sorted((copy / "dataset").glob("*.py")):
    text = path.read_text()
    tree = ast.parse(str(tool.refactor_string(text if text.endswith("\n") else text + "\n", path.name)))
    path.write_text(ast.unparse(ast.fix_missing_locations(Division().visit(tree))))
sys.path.insert(0, str(copy / "dataset"))
import scipy.special  # noqa: E402

sys.modules["scipy.misc"] = scipy.special  # where later versions have ``comb``

import main as published  # noqa: E402

published.trange = range
save, written = published.np.savez, copy / "written"


def measure(configuration, count, seed, files):
    """Problems and CPU seconds."""
    (written / configuration).mkdir(parents=True, exist_ok=True)
    configs = {configuration: getattr(published, f"build_{configuration}")()}
    options = argparse.Namespace(seed=seed, num_samples=count, val=2, test=2, save_dir=str(written))
    published.np.savez = save if files else lambda *_, **__: None
    published.open = (lambda name, _: Path(name).open("wb")) if files else lambda *_: io.BytesIO()  # noqa: SIM115
    published.dom_problem = serializer if files else lambda *_: b""
    start = time.process_time()
    published.separate(options, configs)
    return {"count": count, "seconds": time.process_time() - start}


serializer = published.dom_problem
try:
    serve(measure)
finally:
    shutil.rmtree(copy)
