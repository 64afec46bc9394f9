"""Steering a tutor: layers, activations, separability, standard vectors, edits while decoding, references."""
