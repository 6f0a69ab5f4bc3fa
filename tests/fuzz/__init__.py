"""Coverage-guided fuzzing of all code that reads bytes of peers: `python -m tests.fuzz`, and its corpus as tests."""
