-- The shop's database, as the shop itself would keep it. Money is in integer cents, instants are
-- UTC in the form 'YYYY-MM-DD HH:MM:SS'. Like every SQLite database it enforces its foreign keys
-- only on connections that say `PRAGMA foreign_keys = ON`.

CREATE TABLE settings (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE roles (
  name        TEXT NOT NULL PRIMARY KEY,
  description TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE staff (
  id     INTEGER PRIMARY KEY,
  name   TEXT NOT NULL,
  email  TEXT NOT NULL UNIQUE,
  role   TEXT NOT NULL REFERENCES roles (name),
  active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1))
);

CREATE TABLE customers (
  id         INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  email      TEXT NOT NULL UNIQUE,
  phone      TEXT,
  street     TEXT NOT NULL,
  postcode   TEXT NOT NULL,
  city       TEXT NOT NULL,
  country    TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
);

CREATE TABLE tags (
  name        TEXT NOT NULL PRIMARY KEY,
  description TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE customer_tags (
  customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  tag         TEXT NOT NULL REFERENCES tags (name) ON DELETE CASCADE,
  PRIMARY KEY (customer_id, tag)
) WITHOUT ROWID;

CREATE TABLE payment_methods (
  id          INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  kind        TEXT NOT NULL CHECK (kind IN ('card', 'paypal', 'bank')),
  label       TEXT NOT NULL,
  active      INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1))
);

CREATE TABLE products (
  id          INTEGER PRIMARY KEY,
  sku         TEXT NOT NULL UNIQUE,
  name        TEXT NOT NULL,
  price_cents INTEGER NOT NULL CHECK (price_cents > 0),
  stock       INTEGER NOT NULL CHECK (stock >= 0)
);

CREATE TABLE orders (
  id           INTEGER PRIMARY KEY,
  customer_id  INTEGER REFERENCES customers (id) ON DELETE SET NULL,
  paid_with    INTEGER REFERENCES payment_methods (id) ON DELETE SET NULL,
  status       TEXT NOT NULL CHECK (status IN
    ('open', 'shipped', 'delivered', 'returned', 'partially_refunded', 'refunded', 'cancelled')),
  total_cents  INTEGER NOT NULL CHECK (total_cents >= 0),
  placed_at    TEXT NOT NULL,
  delivered_at TEXT,
  updated_at   TEXT NOT NULL
);

CREATE TABLE order_lines (
  id          INTEGER PRIMARY KEY,
  order_id    INTEGER NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  product_id  INTEGER NOT NULL REFERENCES products (id),
  quantity    INTEGER NOT NULL CHECK (quantity > 0),
  unit_cents  INTEGER NOT NULL CHECK (unit_cents >= 0),
  returned_at TEXT
);

CREATE TABLE approvals (
  id          INTEGER PRIMARY KEY,
  order_id    INTEGER NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  by_staff_id INTEGER NOT NULL REFERENCES staff (id),
  granted_at  TEXT NOT NULL
);

CREATE TABLE refunds (
  id           INTEGER PRIMARY KEY,
  order_id     INTEGER NOT NULL REFERENCES orders (id),
  to_method_id INTEGER NOT NULL REFERENCES payment_methods (id),
  cents        INTEGER NOT NULL CHECK (cents > 0),
  reason       TEXT NOT NULL,
  by_staff_id  INTEGER NOT NULL REFERENCES staff (id),
  created_at   TEXT NOT NULL
);

CREATE TABLE notes (
  id          INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  order_id    INTEGER REFERENCES orders (id) ON DELETE SET NULL,
  by_staff_id INTEGER NOT NULL REFERENCES staff (id),
  body        TEXT NOT NULL,
  created_at  TEXT NOT NULL
);

CREATE INDEX orders_by_customer ON orders (customer_id);
CREATE INDEX order_lines_by_order ON order_lines (order_id);
CREATE INDEX refunds_by_order ON refunds (order_id);
