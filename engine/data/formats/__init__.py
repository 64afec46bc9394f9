"""Files of evaluation tools and benchmarks, recognised by their own signature; one module a family."""
