"""Claims of the four papers, decided from the tables of other studies' runs."""
