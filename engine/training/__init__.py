"""How the bundled judge's adapter is made: held-out rule, examples, training. A user can train one of their own."""
