-- The account administration's database on MariaDB: the tables of schema.sql, and its triggers in
-- MariaDB's own language. Requests and log entries are numbered without gaps, so that none can be
-- missing unnoticed: the next number is one above the highest, whatever was rolled back in between.

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
  deleted_at    DATETIME NULL,
  updated_at    DATETIME NOT NULL
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
  updated_at DATETIME NOT NULL
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
  id              INTEGER NOT NULL DEFAULT 0 PRIMARY KEY,
  kind            VARCHAR(20) NOT NULL CHECK (kind IN ('grant', 'offboarding', 'quota')),
  subject_id      INTEGER NOT NULL REFERENCES users (id),
  role            VARCHAR(40) REFERENCES roles (name),
  scope           VARCHAR(60) NOT NULL, -- the name of a resource, 'team', 'account', or '*' for all
  requested_by_id INTEGER NOT NULL REFERENCES users (id),
  approver_id     INTEGER NOT NULL REFERENCES users (id),
  state           VARCHAR(10) NOT NULL CHECK (state IN ('pending', 'approved', 'rejected')),
  reason          VARCHAR(200) NOT NULL,
  requested_at    DATETIME NOT NULL,
  decided_by_id   INTEGER REFERENCES users (id),
  decided_at      DATETIME NULL
);

CREATE TABLE grants (
  user_id       INTEGER NOT NULL REFERENCES users (id),
  role          VARCHAR(40) NOT NULL REFERENCES roles (name),
  approval_id   INTEGER REFERENCES approvals (id),
  granted_by_id INTEGER NOT NULL REFERENCES users (id),
  granted_at    DATETIME NOT NULL,
  PRIMARY KEY (user_id, role)
);

CREATE TABLE sessions (
  id         INTEGER NOT NULL PRIMARY KEY,
  user_id    INTEGER NOT NULL REFERENCES users (id),
  client     VARCHAR(60) NOT NULL,
  started_at DATETIME NOT NULL,
  revoked_at DATETIME NULL
);

CREATE TABLE api_keys (
  id         INTEGER NOT NULL PRIMARY KEY,
  user_id    INTEGER NOT NULL REFERENCES users (id),
  label      VARCHAR(60) NOT NULL,
  secret     VARCHAR(80) NOT NULL,
  created_at DATETIME NOT NULL
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
  published_at DATETIME NOT NULL,
  PRIMARY KEY (policy, version)
);

-- `subject_id` is the user, or for sessions, keys, resources, teams and approvals their own id;
-- `action` says which.
CREATE TABLE audit_log (
  id         INTEGER NOT NULL DEFAULT 0 PRIMARY KEY,
  at         DATETIME NOT NULL,
  action     VARCHAR(40) NOT NULL,
  subject_id INTEGER NOT NULL,
  detail     VARCHAR(200) NOT NULL
);

CREATE INDEX sessions_by_user ON sessions (user_id);
CREATE INDEX memberships_by_user ON memberships (user_id);

CREATE TRIGGER number_approvals BEFORE INSERT ON approvals FOR EACH ROW
IF NEW.id = 0 THEN SET NEW.id = (SELECT COALESCE(MAX(id), 0) + 1 FROM approvals); END IF;

CREATE TRIGGER number_audit_log BEFORE INSERT ON audit_log FOR EACH ROW
IF NEW.id = 0 THEN SET NEW.id = (SELECT COALESCE(MAX(id), 0) + 1 FROM audit_log); END IF;

-- The audit log is written by the database and by nobody else, and only ever grows. An entry's time
-- is the company's clock, a row of `settings`.

CREATE TRIGGER log_never_changes BEFORE UPDATE ON audit_log FOR EACH ROW
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit log only grows';

CREATE TRIGGER log_never_shrinks BEFORE DELETE ON audit_log FOR EACH ROW
SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit log only grows';

CREATE TRIGGER log_role_granted AFTER INSERT ON grants FOR EACH ROW
INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'role-granted', NEW.user_id, NEW.role FROM settings WHERE name = 'business_time';

CREATE TRIGGER log_role_revoked AFTER DELETE ON grants FOR EACH ROW
INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'role-revoked', OLD.user_id, OLD.role FROM settings WHERE name = 'business_time';

CREATE TRIGGER log_role_moved AFTER UPDATE ON grants FOR EACH ROW
BEGIN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'role-revoked', OLD.user_id, OLD.role FROM settings WHERE name = 'business_time';
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'role-granted', NEW.user_id, NEW.role FROM settings WHERE name = 'business_time';
END;

CREATE TRIGGER log_member_added AFTER INSERT ON memberships FOR EACH ROW
INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'member-added', NEW.user_id, (SELECT t.name FROM teams t WHERE t.id = NEW.team_id) FROM settings WHERE name = 'business_time';

CREATE TRIGGER log_member_removed AFTER DELETE ON memberships FOR EACH ROW
INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'member-removed', OLD.user_id, (SELECT t.name FROM teams t WHERE t.id = OLD.team_id) FROM settings WHERE name = 'business_time';

CREATE TRIGGER log_user_switched AFTER UPDATE ON users FOR EACH ROW
IF OLD.active <> NEW.active THEN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, IF(NEW.active, 'user-activated', 'user-deactivated'), NEW.id, '' FROM settings WHERE name = 'business_time';
END IF;

CREATE TRIGGER log_user_deleted AFTER DELETE ON users FOR EACH ROW
INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'user-deleted', OLD.id, OLD.login FROM settings WHERE name = 'business_time';

CREATE TRIGGER log_session_revoked AFTER UPDATE ON sessions FOR EACH ROW
IF OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL THEN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'session-revoked', NEW.id, '' FROM settings WHERE name = 'business_time';
END IF;

CREATE TRIGGER log_key_destroyed AFTER DELETE ON api_keys FOR EACH ROW
INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'key-destroyed', OLD.id, OLD.label FROM settings WHERE name = 'business_time';

CREATE TRIGGER log_handed_over AFTER UPDATE ON resources FOR EACH ROW
IF OLD.owner_id <> NEW.owner_id THEN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'resource-handed-over', NEW.id, (SELECT u.login FROM users u WHERE u.id = NEW.owner_id) FROM settings WHERE name = 'business_time';
END IF;

CREATE TRIGGER log_approval_requested AFTER INSERT ON approvals FOR EACH ROW
INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'approval-requested', NEW.id, NEW.state FROM settings WHERE name = 'business_time';

CREATE TRIGGER log_approval_changed AFTER UPDATE ON approvals FOR EACH ROW
INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'approval-changed', NEW.id, NEW.state FROM settings WHERE name = 'business_time';

CREATE TRIGGER log_policy_published AFTER INSERT ON policy_versions FOR EACH ROW
INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'policy-published', NEW.version, NEW.policy FROM settings WHERE name = 'business_time';

CREATE TRIGGER log_quota_changed AFTER UPDATE ON quotas FOR EACH ROW
IF OLD.seats <> NEW.seats THEN
  INSERT INTO audit_log (at, action, subject_id, detail)
  SELECT value, 'quota-changed', NEW.team_id, CONCAT(OLD.seats, ' to ', NEW.seats) FROM settings WHERE name = 'business_time';
END IF;
