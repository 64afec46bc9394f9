"""Can this number be trusted: a judge against its people, corrected, selective."""
