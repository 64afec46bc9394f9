"""Pairwise or pointwise, and the leaderboard."""
