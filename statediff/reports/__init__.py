"""Reports: what people and programs are shown of a trial, from its bundle only."""
