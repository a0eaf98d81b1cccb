"""Other libraries' models behind the interface.  Each module imports its library inside the functions that need it."""
