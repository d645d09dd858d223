"""Types, names, filters, times and errors of Spark's, in adelta's terms and back."""
