"""The tools of authors of contracts: drafts, explanations, formatting, versions, changes."""
