"""Sphinx: the pages of this folder and the API reference from docstrings; ``./launch.sh docs`` builds them."""

from typing import Any

project = "raycade"
copyright = "2026, the raycade authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "raycade"
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Links to files of the repository (../conf/model) are right in the repository; a test checks that each exists.
suppress_warnings = ["myst.xref_missing"]

PARTS = {
    "Start": "readme glossary validity",
    "How to": "doctor looking slurm ray-cluster containers kubernetes models vllm presentation api_models agents "
    "providers study sharding gpu wandb checkpoints stopping report site compare export viewer notes notebooks human_players "
    "people reproduce new_suite new_engine kidgym_new_task kidgym_prompts kidgym_pictures kidgym_published kidgym_balanced "
    "kidgym_levels kumo_domains kumo_likely kumo_published kumo_pipeline kumo_trajectories kumo_analysis "
    "multistar_prompts multistar_published training",
    "Reference": "api configuration environment_variables ledger replies multistar_questions kumo_books published_figures "
    "measurements",
    "Why": "design where stopping_mathematics scale validity_kidgym validity_multistar validity_kumo",
    "Records": "records/README records/mutation records/kumo_books_samples records/kumo_facts/part_a "
    "records/kumo_facts/part_b records/kumo_facts/part_c records/kumo_facts/part_d",
}
"""The side bar: the pages by the parts of index.md. A page that is missing here fails the build."""


def _list_pages(_app: object, name: str, source: list[str]) -> None:
    if name == "index":
        trees = [
            f"```{{toctree}}\n:hidden:\n:caption: {part}\n\n" + "\n".join(pages.split()) + "\n```\n"
            for part, pages in PARTS.items()
        ]
        source[0] += "\n" + "\n".join(trees)


def setup(app: Any) -> None:  # noqa: D103
    app.connect("source-read", _list_pages)
