"""The Streamlit front end: reads tables, asks the worker, draws; computes nothing of its own."""
