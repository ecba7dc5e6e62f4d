-- The shop's database on MariaDB: the tables of schema.sql with types of MariaDB's own. Money is in
-- integer cents, instants are UTC. Refunds and the like are numbered without gaps, as the tax office
-- wants it: the next number is one above the highest, whatever was rolled back in between.

CREATE TABLE settings (
  name  VARCHAR(120) NOT NULL PRIMARY KEY,
  value VARCHAR(200) NOT NULL
);

CREATE TABLE roles (
  name        VARCHAR(120) NOT NULL PRIMARY KEY,
  description TEXT NOT NULL
);

CREATE TABLE staff (
  id     INTEGER NOT NULL PRIMARY KEY,
  name   VARCHAR(120) NOT NULL,
  email  VARCHAR(120) NOT NULL UNIQUE,
  role   VARCHAR(120) NOT NULL REFERENCES roles (name),
  active BOOLEAN NOT NULL DEFAULT TRUE
);

CREATE TABLE customers (
  id         INTEGER NOT NULL PRIMARY KEY,
  name       VARCHAR(120) NOT NULL,
  email      VARCHAR(120) NOT NULL UNIQUE,
  phone      TEXT,
  street     TEXT NOT NULL,
  postcode   TEXT NOT NULL,
  city       TEXT NOT NULL,
  country    TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  updated_at DATETIME NOT NULL
);

CREATE TABLE tags (
  name        VARCHAR(120) NOT NULL PRIMARY KEY,
  description TEXT NOT NULL
);

CREATE TABLE customer_tags (
  customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  tag         VARCHAR(120) NOT NULL REFERENCES tags (name) ON DELETE CASCADE,
  PRIMARY KEY (customer_id, tag)
);

CREATE TABLE payment_methods (
  id          INTEGER NOT NULL PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  kind        TEXT NOT NULL CHECK (kind IN ('card', 'paypal', 'bank')),
  label       TEXT NOT NULL,
  active      BOOLEAN NOT NULL DEFAULT TRUE
);

CREATE TABLE products (
  id          INTEGER NOT NULL PRIMARY KEY,
  sku         VARCHAR(120) NOT NULL UNIQUE,
  name        VARCHAR(120) NOT NULL,
  price_cents INTEGER NOT NULL CHECK (price_cents > 0),
  stock       INTEGER NOT NULL CHECK (stock >= 0)
);

CREATE TABLE orders (
  id           INTEGER NOT NULL DEFAULT 0 PRIMARY KEY,
  customer_id  INTEGER REFERENCES customers (id) ON DELETE SET NULL,
  paid_with    INTEGER REFERENCES payment_methods (id) ON DELETE SET NULL,
  status       TEXT NOT NULL CHECK (status IN
    ('open', 'shipped', 'delivered', 'returned', 'partially_refunded', 'refunded', 'cancelled')),
  total_cents  INTEGER NOT NULL CHECK (total_cents >= 0),
  placed_at    DATETIME NOT NULL,
  delivered_at DATETIME,
  updated_at   DATETIME NOT NULL
);

CREATE TABLE order_lines (
  id          INTEGER NOT NULL DEFAULT 0 PRIMARY KEY,
  order_id    INTEGER NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  product_id  INTEGER NOT NULL REFERENCES products (id),
  quantity    INTEGER NOT NULL CHECK (quantity > 0),
  unit_cents  INTEGER NOT NULL CHECK (unit_cents >= 0),
  returned_at DATETIME
);

CREATE TABLE approvals (
  id          INTEGER NOT NULL DEFAULT 0 PRIMARY KEY,
  order_id    INTEGER NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  by_staff_id INTEGER NOT NULL REFERENCES staff (id),
  granted_at  DATETIME NOT NULL
);

CREATE TABLE refunds (
  id           INTEGER NOT NULL DEFAULT 0 PRIMARY KEY,
  order_id     INTEGER NOT NULL REFERENCES orders (id),
  to_method_id INTEGER NOT NULL REFERENCES payment_methods (id),
  cents        INTEGER NOT NULL CHECK (cents > 0),
  reason       TEXT NOT NULL,
  by_staff_id  INTEGER NOT NULL REFERENCES staff (id),
  created_at   DATETIME NOT NULL
);

CREATE TABLE notes (
  id          INTEGER NOT NULL DEFAULT 0 PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  order_id    INTEGER REFERENCES orders (id) ON DELETE SET NULL,
  by_staff_id INTEGER NOT NULL REFERENCES staff (id),
  body        TEXT NOT NULL,
  created_at  DATETIME NOT NULL
);

CREATE INDEX orders_by_customer ON orders (customer_id);
CREATE INDEX order_lines_by_order ON order_lines (order_id);
CREATE INDEX refunds_by_order ON refunds (order_id);

CREATE TRIGGER number_orders BEFORE INSERT ON orders FOR EACH ROW
IF NEW.id = 0 THEN SET NEW.id = (SELECT COALESCE(MAX(id), 0) + 1 FROM orders); END IF;

CREATE TRIGGER number_order_lines BEFORE INSERT ON order_lines FOR EACH ROW
IF NEW.id = 0 THEN SET NEW.id = (SELECT COALESCE(MAX(id), 0) + 1 FROM order_lines); END IF;

CREATE TRIGGER number_approvals BEFORE INSERT ON approvals FOR EACH ROW
IF NEW.id = 0 THEN SET NEW.id = (SELECT COALESCE(MAX(id), 0) + 1 FROM approvals); END IF;

CREATE TRIGGER number_refunds BEFORE INSERT ON refunds FOR EACH ROW
IF NEW.id = 0 THEN SET NEW.id = (SELECT COALESCE(MAX(id), 0) + 1 FROM refunds); END IF;

CREATE TRIGGER number_notes BEFORE INSERT ON notes FOR EACH ROW
IF NEW.id = 0 THEN SET NEW.id = (SELECT COALESCE(MAX(id), 0) + 1 FROM notes); END IF;
