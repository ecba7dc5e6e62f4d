"""Issue trackers (Roundup, Redmine) as systems of statediff."""
