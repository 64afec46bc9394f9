"""One file per page; each reads like a description of what is seen."""
