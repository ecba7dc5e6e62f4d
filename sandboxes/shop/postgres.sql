-- The shop's database on PostgreSQL: the tables of schema.sql with types of PostgreSQL's own. Money
-- is in integer cents, instants are UTC. Refunds and the like are numbered without gaps, as the tax
-- office wants it: the next number is one above the highest, whatever was rolled back in between.

CREATE FUNCTION next_number(numbered text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  number integer;
BEGIN
  EXECUTE format('SELECT coalesce(max(id), 0) + 1 FROM %I', numbered) INTO number;
  RETURN number;
END $$;

CREATE TABLE settings (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
);

CREATE TABLE roles (
  name        TEXT NOT NULL PRIMARY KEY,
  description TEXT NOT NULL
);

CREATE TABLE staff (
  id     INTEGER PRIMARY KEY,
  name   TEXT NOT NULL,
  email  TEXT NOT NULL UNIQUE,
  role   TEXT NOT NULL REFERENCES roles (name),
  active BOOLEAN NOT NULL DEFAULT TRUE
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
  created_at TIMESTAMP NOT NULL,
  updated_at TIMESTAMP NOT NULL
);

CREATE TABLE tags (
  name        TEXT NOT NULL PRIMARY KEY,
  description TEXT NOT NULL
);

CREATE TABLE customer_tags (
  customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  tag         TEXT NOT NULL REFERENCES tags (name) ON DELETE CASCADE,
  PRIMARY KEY (customer_id, tag)
);

CREATE TABLE payment_methods (
  id          INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  kind        TEXT NOT NULL CHECK (kind IN ('card', 'paypal', 'bank')),
  label       TEXT NOT NULL,
  active      BOOLEAN NOT NULL DEFAULT TRUE
);

CREATE TABLE products (
  id          INTEGER PRIMARY KEY,
  sku         TEXT NOT NULL UNIQUE,
  name        TEXT NOT NULL,
  price_cents INTEGER NOT NULL CHECK (price_cents > 0),
  stock       INTEGER NOT NULL CHECK (stock >= 0)
);

CREATE TABLE orders (
  id           INTEGER PRIMARY KEY DEFAULT next_number('orders'),
  customer_id  INTEGER REFERENCES customers (id) ON DELETE SET NULL,
  paid_with    INTEGER REFERENCES payment_methods (id) ON DELETE SET NULL,
  status       TEXT NOT NULL CHECK (status IN
    ('open', 'shipped', 'delivered', 'returned', 'partially_refunded', 'refunded', 'cancelled')),
  total_cents  INTEGER NOT NULL CHECK (total_cents >= 0),
  placed_at    TIMESTAMP NOT NULL,
  delivered_at TIMESTAMP,
  updated_at   TIMESTAMP NOT NULL
);

CREATE TABLE order_lines (
  id          INTEGER PRIMARY KEY DEFAULT next_number('order_lines'),
  order_id    INTEGER NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  product_id  INTEGER NOT NULL REFERENCES products (id),
  quantity    INTEGER NOT NULL CHECK (quantity > 0),
  unit_cents  INTEGER NOT NULL CHECK (unit_cents >= 0),
  returned_at TIMESTAMP
);

CREATE TABLE approvals (
  id          INTEGER PRIMARY KEY DEFAULT next_number('approvals'),
  order_id    INTEGER NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  by_staff_id INTEGER NOT NULL REFERENCES staff (id),
  granted_at  TIMESTAMP NOT NULL
);

CREATE TABLE refunds (
  id           INTEGER PRIMARY KEY DEFAULT next_number('refunds'),
  order_id     INTEGER NOT NULL REFERENCES orders (id),
  to_method_id INTEGER NOT NULL REFERENCES payment_methods (id),
  cents        INTEGER NOT NULL CHECK (cents > 0),
  reason       TEXT NOT NULL,
  by_staff_id  INTEGER NOT NULL REFERENCES staff (id),
  created_at   TIMESTAMP NOT NULL
);

CREATE TABLE notes (
  id          INTEGER PRIMARY KEY DEFAULT next_number('notes'),
  customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  order_id    INTEGER REFERENCES orders (id) ON DELETE SET NULL,
  by_staff_id INTEGER NOT NULL REFERENCES staff (id),
  body        TEXT NOT NULL,
  created_at  TIMESTAMP NOT NULL
);

CREATE INDEX orders_by_customer ON orders (customer_id);
CREATE INDEX order_lines_by_order ON order_lines (order_id);
CREATE INDEX refunds_by_order ON refunds (order_id);
