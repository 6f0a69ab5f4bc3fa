"""What a producer may send: the checks of Produce."""
