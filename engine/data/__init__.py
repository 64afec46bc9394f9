"""Reading a user's file into items and responses, saving data sets, and the bundled demo data."""
