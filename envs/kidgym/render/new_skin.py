"""``python -m envs.kidgym.render.new_skin FOLDER`` writes the built-in sprites as PNG files: a skin to start from."""

from __future__ import annotations

import argparse

from envs.kidgym.render.skins import export_skin


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m envs.kidgym.render.new_skin",
        description="Write the built-in KidGym sprites as PNG files, a complete skin to start from.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="where to write; files of the same names are replaced")
    parser.add_argument("--pixels", type=int, default=192, help="edge of a sprite (default 192)")
    arguments = parser.parse_args()
    print(f"{export_skin(arguments.folder, arguments.pixels)} sprites written to {arguments.folder}")


if __name__ == "__main__":
    main()
