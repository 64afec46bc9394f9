"""The pieces a page is made of; each takes tables and draws."""
