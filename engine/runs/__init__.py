"""Run folders: reading, writing, listing, comparing, archiving."""
