import pytest

from cluster.engines import api_engine
from tests.cluster.openai_api.stub import KEY, Stub


@pytest.fixture
def stub(monkeypatch):
    """A server on this machine; retries come soon, and the key is set."""
    monkeypatch.setattr(api_engine, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(api_engine, "LONGEST_WAIT", 0.05)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    made = Stub()
    yield made
    made.server.shutdown()
    made.server.server_close()
