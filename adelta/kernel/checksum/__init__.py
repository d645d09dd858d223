"""The version checksum, a `.crc` file (PROTOCOL.md, "Version Checksum File")."""
