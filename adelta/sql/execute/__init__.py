"""What each statement does: a file for each kind, over adelta's operations."""
