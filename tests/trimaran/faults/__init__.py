"""Rules, engine and relay of faults on demand."""
