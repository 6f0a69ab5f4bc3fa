"""The codecs of `trimaran.log.codecs.compression`, a module each, imported with its library at its first use."""
