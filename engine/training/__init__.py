"""Training of the bundled judge's adapter: held-out rule, examples, training. A user can train one of their own."""
