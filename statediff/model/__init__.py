"""The nouns: values, schema, state, readings, trace, delta, verdict, bundle. Frozen, no I/O."""
