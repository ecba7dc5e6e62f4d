-- The account administration's database. Tables use types that SQLite, PostgreSQL and MariaDB have
-- in common; instants are UTC in the form 'YYYY-MM-DD HH:MM:SS'. Like every SQLite database it
-- enforces its foreign keys only on connections that say `PRAGMA foreign_keys = ON`.

CREATE TABLE settings (
  name  VARCHAR(60) NOT NULL PRIMARY KEY,
  value VARCHAR(200) NOT NULL
);

CREATE TABLE departments (
  id      INTEGER NOT NULL PRIMARY KEY,
  name    VARCHAR(60) NOT NULL UNIQUE,
  head_id INTEGER NOT NULL, -- a user; users belong to departments, so this side has no constraint
  seats   INTEGER NOT NULL CHECK (seats >= 0)
);

CREATE TABLE users (
  id            INTEGER NOT NULL PRIMARY KEY,
  login         VARCHAR(60) NOT NULL UNIQUE,
  name          VARCHAR(120) NOT NULL,
  email         VARCHAR(120) NOT NULL UNIQUE,
  kind          VARCHAR(10) NOT NULL CHECK (kind IN ('person', 'service')),
  department_id INTEGER NOT NULL REFERENCES departments (id),
  manager_id    INTEGER REFERENCES users (id),
  active        BOOLEAN NOT NULL,
  deleted_at    TIMESTAMP NULL,
  updated_at    TIMESTAMP NOT NULL
);

CREATE TABLE teams (
  id            INTEGER NOT NULL PRIMARY KEY,
  name          VARCHAR(60) NOT NULL,
  department_id INTEGER NOT NULL REFERENCES departments (id),
  lead_id       INTEGER NOT NULL REFERENCES users (id)
);

CREATE TABLE memberships (
  team_id INTEGER NOT NULL REFERENCES teams (id),
  user_id INTEGER NOT NULL REFERENCES users (id),
  PRIMARY KEY (team_id, user_id)
);

CREATE TABLE quotas (
  team_id    INTEGER NOT NULL PRIMARY KEY REFERENCES teams (id),
  seats      INTEGER NOT NULL CHECK (seats >= 0),
  used       INTEGER NOT NULL CHECK (used >= 0),
  updated_at TIMESTAMP NOT NULL
);

CREATE TABLE roles (
  name        VARCHAR(40) NOT NULL PRIMARY KEY,
  description VARCHAR(200) NOT NULL,
  privileged  BOOLEAN NOT NULL
);

CREATE TABLE permissions (
  name        VARCHAR(40) NOT NULL PRIMARY KEY,
  description VARCHAR(200) NOT NULL
);

CREATE TABLE role_permissions (
  role       VARCHAR(40) NOT NULL REFERENCES roles (name),
  permission VARCHAR(40) NOT NULL REFERENCES permissions (name),
  PRIMARY KEY (role, permission)
);

-- Separation of duties: nobody holds both.
CREATE TABLE role_exclusions (
  role     VARCHAR(40) NOT NULL REFERENCES roles (name),
  excludes VARCHAR(40) NOT NULL REFERENCES roles (name),
  PRIMARY KEY (role, excludes)
);

-- Who is in the child is in the parent, too, and has what the parent has.
CREATE TABLE team_nestings (
  child_id  INTEGER NOT NULL REFERENCES teams (id),
  parent_id INTEGER NOT NULL REFERENCES teams (id),
  PRIMARY KEY (child_id, parent_id)
);

-- A role that every member of a team holds.
CREATE TABLE team_roles (
  team_id INTEGER NOT NULL REFERENCES teams (id),
  role    VARCHAR(40) NOT NULL REFERENCES roles (name),
  PRIMARY KEY (team_id, role)
);

CREATE TABLE approvals (
  id              INTEGER NOT NULL PRIMARY KEY,
  kind            VARCHAR(20) NOT NULL CHECK (kind IN ('grant', 'offboarding', 'quota')),
  subject_id      INTEGER NOT NULL REFERENCES users (id),
  role            VARCHAR(40) REFERENCES roles (name),
  scope           VARCHAR(60) NOT NULL, -- the name of a resource, 'team', 'account', or '*' for all
  requested_by_id INTEGER NOT NULL REFERENCES users (id),
  approver_id     INTEGER NOT NULL REFERENCES users (id),
  state           VARCHAR(10) NOT NULL CHECK (state IN ('pending', 'approved', 'rejected')),
  reason          VARCHAR(200) NOT NULL,
  requested_at    TIMESTAMP NOT NULL,
  decided_by_id   INTEGER REFERENCES users (id),
  decided_at      TIMESTAMP NULL
);

CREATE TABLE grants (
  user_id       INTEGER NOT NULL REFERENCES users (id),
  role          VARCHAR(40) NOT NULL REFERENCES roles (name),
  approval_id   INTEGER REFERENCES approvals (id),
  granted_by_id INTEGER NOT NULL REFERENCES users (id),
  granted_at    TIMESTAMP NOT NULL,
  PRIMARY KEY (user_id, role)
);

CREATE TABLE sessions (
  id         INTEGER NOT NULL PRIMARY KEY,
  user_id    INTEGER NOT NULL REFERENCES users (id),
  client     VARCHAR(60) NOT NULL,
  started_at TIMESTAMP NOT NULL,
  revoked_at TIMESTAMP NULL
);

CREATE TABLE api_keys (
  id         INTEGER NOT NULL PRIMARY KEY,
  user_id    INTEGER NOT NULL REFERENCES users (id),
  label      VARCHAR(60) NOT NULL,
  secret     VARCHAR(80) NOT NULL,
  created_at TIMESTAMP NOT NULL
);

CREATE TABLE resources (
  id            INTEGER NOT NULL PRIMARY KEY,
  name          VARCHAR(60) NOT NULL UNIQUE,
  kind          VARCHAR(20) NOT NULL,
  department_id INTEGER NOT NULL REFERENCES departments (id),
  owner_id      INTEGER NOT NULL REFERENCES users (id)
);

CREATE TABLE policies (
  name    VARCHAR(40) NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL -- the one in force
);

CREATE TABLE policy_versions (
  policy       VARCHAR(40) NOT NULL REFERENCES policies (name),
  version      INTEGER NOT NULL,
  statement    VARCHAR(400) NOT NULL,
  published_at TIMESTAMP NOT NULL,
  PRIMARY KEY (policy, version)
);

-- `subject_id` is the user, or for sessions, keys, resources, teams and approvals their own id;
-- `action` says which.
CREATE TABLE audit_log (
  id         INTEGER NOT NULL PRIMARY KEY,
  at         TIMESTAMP NOT NULL,
  action     VARCHAR(40) NOT NULL,
  subject_id INTEGER NOT NULL,
  detail     VARCHAR(200) NOT NULL
);

CREATE INDEX sessions_by_user ON sessions (user_id);
CREATE INDEX memberships_by_user ON memberships (user_id);

-- The audit log is written by the database and by nobody else, and only ever grows. From here on the
-- language is SQLite's own. An entry's time is the company's clock, a row of `settings`.

CREATE TRIGGER log_never_changes BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;

CREATE TRIGGER log_never_shrinks BEFORE DELETE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;

CREATE TRIGGER log_role_granted AFTER INSERT ON grants
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'role-granted', NEW.user_id, NEW.role FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_role_revoked AFTER DELETE ON grants
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'role-revoked', OLD.user_id, OLD.role FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_role_moved AFTER UPDATE ON grants
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'role-revoked', OLD.user_id, OLD.role FROM settings WHERE name = 'business_time';
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'role-granted', NEW.user_id, NEW.role FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_member_added AFTER INSERT ON memberships
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT s.value, 'member-added', NEW.user_id, t.name FROM settings s, teams t
  WHERE s.name = 'business_time' AND t.id = NEW.team_id;
END;

CREATE TRIGGER log_member_removed AFTER DELETE ON memberships
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT s.value, 'member-removed', OLD.user_id, t.name FROM settings s, teams t
  WHERE s.name = 'business_time' AND t.id = OLD.team_id;
END;

CREATE TRIGGER log_user_switched AFTER UPDATE OF active ON users WHEN OLD.active <> NEW.active
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, CASE WHEN NEW.active THEN 'user-activated' ELSE 'user-deactivated' END, NEW.id, ''
  FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_user_deleted AFTER DELETE ON users
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'user-deleted', OLD.id, OLD.login FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_session_revoked AFTER UPDATE OF revoked_at ON sessions
WHEN OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'session-revoked', NEW.id, '' FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_key_destroyed AFTER DELETE ON api_keys
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'key-destroyed', OLD.id, OLD.label FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_handed_over AFTER UPDATE OF owner_id ON resources WHEN OLD.owner_id <> NEW.owner_id
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT s.value, 'resource-handed-over', NEW.id, u.login FROM settings s, users u
  WHERE s.name = 'business_time' AND u.id = NEW.owner_id;
END;

CREATE TRIGGER log_approval_requested AFTER INSERT ON approvals
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'approval-requested', NEW.id, NEW.state FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_approval_changed AFTER UPDATE ON approvals
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'approval-changed', NEW.id, NEW.state FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_policy_published AFTER INSERT ON policy_versions
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'policy-published', NEW.version, NEW.policy FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_quota_changed AFTER UPDATE OF seats ON quotas WHEN OLD.seats <> NEW.seats
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'quota-changed', NEW.team_id, OLD.seats || ' to ' || NEW.seats
  FROM settings WHERE name = 'business_time';
END;
