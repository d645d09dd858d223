"""What the faces to libraries of data frames share."""
