"""The profile of a model (`bench/profiled.py`), measured after its test text was scored and outside every clock."""
