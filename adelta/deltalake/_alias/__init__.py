"""The folder that `install_as_deltalake` puts on the path of child processes."""
