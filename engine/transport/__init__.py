"""Partial transport over difference embeddings (PUAudit, paper 002): encoders, denoising, the exact path."""
