-- The shop's database. Money is in integer cents of the order's currency, instants are UTC in the
-- form 'YYYY-MM-DD HH:MM:SS'. `payer`, `payment_intent` and `subscription` are ids of the payment
-- API; nothing but whoever writes them keeps them right.

CREATE TABLE settings (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE policies (
  name TEXT NOT NULL PRIMARY KEY,
  days INTEGER,
  text TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE staff (
  id     INTEGER PRIMARY KEY,
  name   TEXT NOT NULL,
  email  TEXT NOT NULL UNIQUE,
  role   TEXT NOT NULL CHECK (role IN ('manager', 'billing', 'support')),
  active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1))
);

CREATE TABLE accounts (
  id         INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  email      TEXT NOT NULL UNIQUE,
  payer      TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL
);

CREATE TABLE orders (
  id             INTEGER PRIMARY KEY,
  account_id     INTEGER NOT NULL REFERENCES accounts (id),
  status         TEXT NOT NULL CHECK (status IN ('awaiting_payment', 'paid', 'shipped', 'delivered',
    'returned', 'partially_refunded', 'refunded', 'cancelled')),
  total_cents    INTEGER NOT NULL CHECK (total_cents >= 0),
  currency       TEXT NOT NULL CHECK (currency IN ('eur', 'usd')),
  payment_intent TEXT,
  placed_at      TEXT NOT NULL,
  delivered_at   TEXT,
  updated_at     TEXT NOT NULL
);

CREATE TABLE order_lines (
  id          INTEGER PRIMARY KEY,
  order_id    INTEGER NOT NULL REFERENCES orders (id),
  article     TEXT NOT NULL,
  quantity    INTEGER NOT NULL CHECK (quantity > 0),
  unit_cents  INTEGER NOT NULL CHECK (unit_cents >= 0),
  returned_at TEXT
);

CREATE TABLE shipments (
  id           INTEGER PRIMARY KEY,
  order_id     INTEGER NOT NULL REFERENCES orders (id),
  carrier      TEXT NOT NULL,
  tracking     TEXT NOT NULL UNIQUE,
  shipped_at   TEXT NOT NULL,
  delivered_at TEXT,
  received_by  TEXT
);

CREATE TABLE memberships (
  id           INTEGER PRIMARY KEY,
  account_id   INTEGER NOT NULL REFERENCES accounts (id),
  subscription TEXT NOT NULL UNIQUE,
  status       TEXT NOT NULL CHECK (status IN ('active', 'unpaid', 'ended')),
  ends_at      TEXT,
  updated_at   TEXT NOT NULL
);

CREATE TABLE approvals (
  id          INTEGER PRIMARY KEY,
  order_id    INTEGER NOT NULL REFERENCES orders (id),
  cents       INTEGER NOT NULL CHECK (cents > 0),
  by_staff_id INTEGER NOT NULL REFERENCES staff (id),
  granted_at  TEXT NOT NULL
);

CREATE TABLE requests (
  id          INTEGER PRIMARY KEY,
  account_id  INTEGER NOT NULL REFERENCES accounts (id),
  order_id    INTEGER REFERENCES orders (id),
  kind        TEXT NOT NULL CHECK (kind IN ('refund', 'cancel', 'question')),
  text        TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('open', 'done', 'refused')),
  reason      TEXT,
  received_at TEXT NOT NULL,
  closed_at   TEXT
);

CREATE TABLE notes (
  id          INTEGER PRIMARY KEY,
  order_id    INTEGER NOT NULL REFERENCES orders (id),
  by_staff_id INTEGER NOT NULL REFERENCES staff (id),
  body        TEXT NOT NULL,
  created_at  TEXT NOT NULL
);
