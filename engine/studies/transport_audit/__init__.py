"""Transport audit (PUAudit) of pairwise verdicts."""
