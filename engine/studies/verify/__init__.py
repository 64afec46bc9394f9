"""A verifier against known correctness."""
