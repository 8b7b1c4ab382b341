"""Trains a model for each row of a paper's table, and writes the table."""
