"""Which of the user's environment reaches replicas on an existing Ray."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.ray_backend.environment import passed_on

LISTED = (
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "HF_ENDPOINT",
    "VLLM_CACHE_ROOT",
    "NCCL_SOCKET_IFNAME",
    "TORCH_NCCL_ENABLE_MONITORING",
)
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@pytest.mark.parametrize("name", [*LISTED, *PROXIES, "RAYCADE_PLUGINS", "PYTHONPATH"])
def test_what_is_listed_is_passed_on(name):
    assert passed_on({name: "value"}) == ({name: "value"}, [])


def test_a_folder_with_an_at_sign_is_no_address_with_a_password():
    places = {"PYTHONPATH": "/envs/torch@2.11/lib", "RAYCADE_PLUGINS": "/home/me@lab/plugins"}
    assert passed_on(places) == (places, [])
    assert passed_on({"HF_ENDPOINT": "https://me:word@hub.lab"}) == ({}, ["HF_ENDPOINT"])
    assert passed_on({"http_proxy": "http://proxy:80", "no_proxy": "::1"})[1] == []
    assert passed_on({"http_proxy": "token@proxy"}) == ({}, ["http_proxy"])


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "EDITOR", "CUDA_VISIBLE_DEVICES", "VLLM_HOST_IP", "VLLM_PORT", "MY_HF_HOME"]
)
def test_other_variables_and_those_of_one_machine_are_not(name):
    assert passed_on({name: "value"}) == ({}, [])


@pytest.mark.parametrize("name", ["HF_TOKEN", "VLLM_API_KEY", "HF_HUB_SECRET", "hf_token"])
def test_a_secret_is_named_and_not_passed_on(name):
    assert passed_on({name: "hf_abcdefgh"}) == ({}, [name])


@given(st.sampled_from(PROXIES), st.sampled_from(["http://", ""]), st.text())
def test_a_proxy_s_password_is_never_passed_on(name, scheme, password):
    assert passed_on({name: f"{scheme}me:{password}@proxy:3128"}) == ({}, [name])
