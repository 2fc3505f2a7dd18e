"""Reading files that others wrote: everything from outside is read through this package, within stated bounds.

A file may be damaged, or made to harm: a named pipe that never ends, brackets nested until the stack is full, aliases
that unfold to billions of values, an archive that unpacks to more than the memory. Every function here

- opens regular files only, and never waits;
- bounds bytes, levels of nesting and number of values before the values are built;
- executes nothing and builds plain data only;
- raises `FileError`, which names the file, the place and the reason, and nothing else.

The parsers are libraries: PyYAML, json, tomllib, defusedxml, zipfile, numpy. These modules add the bounds.

    regular   regular files: bytes, text, lines        data    JSON, JSON lines, YAML, TOML
    xml       XML without document types               arrays  npz archives
    parquet   Parquet files                            archive zip archives, member by member
"""

from envs.files.data import (
    Bounds,
    is_unicode,
    parse_json,
    parse_yaml,
    read_json,
    read_json_lines,
    read_toml,
    read_yaml,
)
from envs.files.regular import (
    FileError,
    MissingFileError,
    absolute_path,
    home_folder,
    is_hidden,
    open_regular,
    read_bytes,
    read_lines,
    read_text,
    real_path,
    regular,
    shown_files,
)

__all__ = [
    "Bounds",
    "FileError",
    "MissingFileError",
    "absolute_path",
    "home_folder",
    "is_hidden",
    "is_unicode",
    "open_regular",
    "parse_json",
    "parse_yaml",
    "read_bytes",
    "read_json",
    "read_json_lines",
    "read_lines",
    "read_text",
    "read_toml",
    "read_yaml",
    "real_path",
    "regular",
    "shown_files",
]
