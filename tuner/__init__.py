"""Search and measuring: empty yet. Cost models are in ``polyhedral/policy``."""
