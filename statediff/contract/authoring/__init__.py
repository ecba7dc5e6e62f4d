"""What authors of contracts use: drafts, explanations, formatting, versions, changes."""
