"""Many trials: what people and programs say of them, side by side."""
