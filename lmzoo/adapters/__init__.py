"""What other projects made, behind the interfaces of this one.  Each module imports its library where it needs it."""
