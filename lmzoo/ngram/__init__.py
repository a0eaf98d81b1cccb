"""Counting models: n-grams of any order."""
