"""Engines complete chats: vLLM, API endpoints, a simulated engine."""
