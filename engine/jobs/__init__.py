"""The worker process and its queue."""
