"""The search for a recipe on one's own corpus: what is tried, who proposes it, what is kept of it."""
