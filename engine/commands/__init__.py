"""One module per command of the command line; each adds its options and runs."""
