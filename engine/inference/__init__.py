"""Loading models, scoring labels, decoding, served models."""
