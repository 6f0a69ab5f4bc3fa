"""Coverage-guided fuzzing of all that reads bytes of peers: `python -m tests.fuzz`, and its corpus as tests."""
