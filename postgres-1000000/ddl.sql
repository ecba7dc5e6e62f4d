
CREATE TABLE orders (id bigint PRIMARY KEY, customer int, quantity int, weight float8,
  discount float8, price numeric(12, 2), status text, email text, paid boolean,
  updated_at timestamptz);
