"""Names of tables in classic sessions: SQL, the session's catalog, and paths as names."""
