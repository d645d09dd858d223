"""Many tables below one root: found, opened and watched within one budget."""
