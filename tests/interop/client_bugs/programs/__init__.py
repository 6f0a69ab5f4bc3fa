"""The programs, each for one client; they print one line."""
