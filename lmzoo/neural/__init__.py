"""Neural language models over torch: recurrent ones, written out and torch's own, and the fixed window."""
