"""Records what a program does to files, and shows the disk as a death after each of these operations would leave it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class _File:
    content: bytes = b""
    synced: bytes = b""


@dataclass
class _Model:
    """A disk with what of it would survive the loss of power: contents and names as of their last ``fsync``."""

    names: dict[Path, _File] = field(default_factory=dict)
    synced_names: dict[Path, _File] = field(default_factory=dict)

    def content(self, power_lost: bool) -> dict[Path, bytes]:
        """What a reader finds."""
        if power_lost:
            return {path: file.synced for path, file in self.synced_names.items()}
        return {path: file.content for path, file in self.names.items()}


class RecordedDisk:
    """Records calls of ``os`` on files below a folder, and what the test notes in between."""

    def __init__(self, root: Path, monkeypatch) -> None:
        self.root = root
        self.operations: list[tuple] = []
        self._open: dict[int, Path] = {}
        for name in ("open", "write", "fsync", "close", "rename", "unlink"):
            monkeypatch.setattr(os, name, getattr(self, f"_{name}_and_record")(getattr(os, name)))

    def note(self, what: object) -> None:
        """Something that happened in the world, not on the disk: a death afterwards must not forget it."""
        self.operations.append(("note", what))

    def states(self, folder: Path) -> Iterator[tuple[Path, list]]:
        """The disk after a death at each operation, in a folder of its own, with what was noted until then.

        Once as after a killed process, once as after a loss of power; a write is also shown half done.
        """
        model, notes = _Model(), []
        for number, operation in enumerate([("note", None), *self.operations]):
            if operation[0] == "write":
                path, data = operation[1:]
                file = model.names[path]
                whole = file.content
                file.content = whole + data[: len(data) // 2]
                yield self._shown(model, folder / f"{number}-half", False), [*notes]
                file.content = whole
            before = model.content(False), model.content(True)
            self._apply(model, operation, notes)
            for power_lost in (False, True):
                if operation[0] == "note" or model.content(power_lost) != before[power_lost]:
                    yield self._shown(model, folder / f"{number}-{power_lost}", power_lost), [*notes]

    def _shown(self, model: _Model, folder: Path, power_lost: bool) -> Path:
        folder.mkdir(parents=True)
        for path, content in model.content(power_lost).items():
            shown = folder / path.relative_to(self.root)
            shown.parent.mkdir(parents=True, exist_ok=True)
            shown.write_bytes(content)
            os.utime(shown, (1, 1))  # long ago, so that no heartbeat is fresh
        return folder

    def _apply(self, model: _Model, operation: tuple, notes: list) -> None:
        kind, *what = operation
        if kind == "note":
            notes.append(what[0])
        elif kind == "open":
            path, flags = what
            if flags & os.O_CREAT and path not in model.names:
                model.names[path] = _File()
            elif flags & os.O_TRUNC:
                model.names[path].content = b""
        elif kind == "write":
            model.names[what[0]].content += what[1]
        elif kind == "fsync" and what[0] in model.names:
            model.names[what[0]].synced = model.names[what[0]].content
        elif kind == "fsync":
            outside = {path: file for path, file in model.synced_names.items() if path.parent != what[0]}
            model.synced_names = outside | {path: file for path, file in model.names.items() if path.parent == what[0]}
        elif kind == "rename":
            model.names[what[1]] = model.names.pop(what[0])
        elif kind == "unlink":
            model.names.pop(what[0], None)

    def _open_and_record(self, real):
        def call(path, flags, *rest, **options):
            file = real(path, flags, *rest, **options)
            if isinstance(path, str | Path) and self._is_below(path):
                self._open[file] = Path(path)
                self.operations.append(("open", Path(path), flags))
            return file

        return call

    def _write_and_record(self, real):
        def call(file, data):
            if file in self._open:
                self.operations.append(("write", self._open[file], bytes(data)))
            return real(file, data)

        return call

    def _fsync_and_record(self, real):
        def call(file):
            if file in self._open:
                self.operations.append(("fsync", self._open[file]))
            return real(file)

        return call

    def _close_and_record(self, real):
        def call(file):
            self._open.pop(file, None)
            return real(file)

        return call

    def _rename_and_record(self, real):
        def call(old, new, **options):
            if self._is_below(old):
                self.operations.append(("rename", Path(old), Path(new)))
            return real(old, new, **options)

        return call

    def _unlink_and_record(self, real):
        def call(path, **options):
            if self._is_below(path):
                self.operations.append(("unlink", Path(path)))
            return real(path, **options)

        return call

    def _is_below(self, path: str | Path) -> bool:
        return Path(path).is_relative_to(self.root)
