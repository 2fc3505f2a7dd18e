"""Which environment variables of the user's shell reach replicas on a Ray cluster that somebody else started.

Their processes have the environment of the shell in which Ray was started on their node. A job's settings are stored by Ray
and shown in its dashboard, so no secret is ever among what is passed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cluster.storage.surroundings import SECRET
from envs import plugins

PASSED = re.compile(r"(HF|TRANSFORMERS|VLLM|NCCL|TORCH_NCCL|TORCHINDUCTOR)_\w+|(https?|all|no)_proxy", re.IGNORECASE)
"""Settings of the hub, vLLM, communication between GPUs, compilers, and proxies."""
OWN_OF_NODES = re.compile(r"VLLM_(HOST_IP|LOOPBACK_IP|PORT|DP_\w+|RPC_\w+)|\w*_LOCAL_RANK")
"""These name one machine or process, and would be wrong on others."""


def passed_on(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Variables to pass, and names of those that are withheld as they are or hold secrets.

    >>> passed_on({"HF_HOME": "/hf", "HF_TOKEN": "hf_x", "https_proxy": "http://me:pw@proxy:80", "EDITOR": "vi"})
    ({'HF_HOME': '/hf'}, ['HF_TOKEN', 'https_proxy'])
    """
    passed, withheld = {}, []
    for name, value in environment.items():
        # Workers on other machines import the plugins, and a wheel's packages, from the same paths as this process.
        imports = name in (plugins.VARIABLE, "PYTHONPATH")
        is_passed = imports or PASSED.fullmatch(name)
        if not is_passed or OWN_OF_NODES.fullmatch(name):
            continue
        if not value:
            continue
        # A proxy's address may begin with a user's name and password.
        has_password = "@" in value and not imports
        holds_secret = has_password or SECRET.search(name)
        if holds_secret:
            withheld.append(name)
        else:
            passed[name] = value
    return passed, withheld
