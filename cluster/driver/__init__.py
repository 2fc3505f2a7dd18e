"""The driver: assigns episodes to runners and keeps replicas alive."""
