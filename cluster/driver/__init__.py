"""The driver: hands episodes to runners and keeps replicas alive."""
