INSERT INTO people VALUES
  ('ines', 'Ines Duarte', 'maintainer'),
  ('oskar', 'Oskar Lindqvist', 'member'),
  ('mei', 'Mei Tanaka', 'member'),
  ('kofi', 'Kofi Mensah', 'outside'),
  ('forge-bot', 'The forge', 'service');

INSERT INTO tickets VALUES
  (24, 'Release 1.2.2', 'ines', 'open', 'refs/heads/release/1.2', 'ines'),
  (27, 'Imperial and US gallons', 'mei', 'open', 'refs/heads/feature/gallons', 'ines'),
  (28, 'Paths with backslashes', 'oskar', 'open', 'refs/heads/fix/windows-paths', 'ines'),
  (30, 'Round to a given unit', 'kofi', 'open', NULL, NULL),
  (31, 'Say in the docs which gallon is meant', 'kofi', 'open', NULL, 'ines');

INSERT INTO participants VALUES
  (24, 'ines', 'ines'),
  (27, 'mei', 'ines'),
  (28, 'mei', 'ines'),
  (28, 'oskar', 'ines');

-- Three keys have one title. What each leads to is in the scopes, and in the uses of the branches there.
INSERT INTO deploy_keys VALUES
  (2, 'docs-preview'),
  (3, 'release'),
  (4, 'docs-preview'),
  (6, 'docs-preview');

INSERT INTO key_scopes VALUES
  (2, 'refs/heads/main'),
  (3, 'refs/heads/main'),
  (3, 'refs/heads/release/1.2'),
  (4, 'refs/heads/feature/formatting'),
  (6, 'refs/heads/feature/gallons');

INSERT INTO key_uses VALUES
  ('refs/heads/feature/gallons', 2, 'ines'),
  ('refs/heads/main', 3, 'ines');

INSERT INTO protected_branches VALUES
  ('refs/heads/main'),
  ('refs/heads/release/1.1'),
  ('refs/heads/release/1.2');
