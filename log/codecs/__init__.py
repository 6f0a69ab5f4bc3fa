"""The codecs of `log.compression`, a module each, imported with its library at its first use."""
