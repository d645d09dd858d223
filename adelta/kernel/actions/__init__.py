"""The actions of a Delta log, one file each (PROTOCOL.md, "Actions")."""
