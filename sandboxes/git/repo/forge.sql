-- The database of the forge: tickets, who works on them, and the deploy keys of the repository.
-- A branch is named as git names it. The forge keeps no branches: they are in the repository.

CREATE TABLE people (
  login VARCHAR(40) NOT NULL PRIMARY KEY,
  name  VARCHAR(120) NOT NULL,
  role  VARCHAR(20) NOT NULL CHECK (role IN ('maintainer', 'member', 'outside', 'service'))
);

CREATE TABLE tickets (
  id          INTEGER NOT NULL PRIMARY KEY,
  title       VARCHAR(200) NOT NULL,
  author      VARCHAR(40) NOT NULL REFERENCES people (login),
  state       VARCHAR(10) NOT NULL CHECK (state IN ('open', 'closed')),
  branch      VARCHAR(200),
  approved_by VARCHAR(40) REFERENCES people (login)
);

CREATE TABLE participants ( -- who may push to the ticket's branch
  ticket   INTEGER NOT NULL REFERENCES tickets (id),
  person   VARCHAR(40) NOT NULL REFERENCES people (login),
  added_by VARCHAR(40) NOT NULL REFERENCES people (login),
  PRIMARY KEY (ticket, person)
);

CREATE TABLE deploy_keys (
  id    INTEGER NOT NULL PRIMARY KEY,
  title VARCHAR(60) NOT NULL
);

CREATE TABLE key_uses ( -- the pipelines of the branch hold the key
  branch   VARCHAR(200) NOT NULL,
  key_id   INTEGER NOT NULL REFERENCES deploy_keys (id),
  added_by VARCHAR(40) NOT NULL REFERENCES people (login),
  PRIMARY KEY (branch, key_id)
);

CREATE TABLE key_scopes ( -- the key may push to the branch
  key_id INTEGER NOT NULL REFERENCES deploy_keys (id),
  branch VARCHAR(200) NOT NULL,
  PRIMARY KEY (key_id, branch)
);

CREATE TABLE protected_branches (
  branch VARCHAR(200) NOT NULL PRIMARY KEY
);
