"""Generation of straight-line encoders and decoders from declarations."""
