"""The doors: commands parse, call one function and render; nothing else exits or prints."""
