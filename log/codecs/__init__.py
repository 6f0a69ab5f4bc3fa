"""The codecs of `trimaran.log.codecs.compression`, one module for each, imported with its library at the first use."""
