"""RefSwap: verifiers against master keys."""
