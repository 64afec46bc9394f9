"""Benchmarks and full-size measurements; nothing else imports them."""
