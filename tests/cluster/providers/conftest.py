import pytest

from cluster.engines import api_engine
from tests.cluster.providers.stub import KEY, ProviderStub

VARIABLES = (
    "ANTHROPIC_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AZURE_OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
)


@pytest.fixture
def stub(monkeypatch):
    """A server on this machine; retries come soon, and the keys are set."""
    monkeypatch.setattr(api_engine, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(api_engine, "LONGEST_WAIT", 0.05)
    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    made = ProviderStub()
    yield made
    made.close()
