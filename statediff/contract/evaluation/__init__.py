"""Three-valued evaluation of typed expressions, by rows and by columns."""
