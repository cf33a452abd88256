"""The types that all packages share: frozen structs and protocols, without I/O."""
