-- A store's shelf in the shape of the tables that MCPMark's `dvdrental` tasks read.
CREATE TYPE mpaa_rating AS ENUM ('G', 'PG', 'PG-13', 'R', 'NC-17');
CREATE TABLE language (language_id SERIAL PRIMARY KEY, name CHAR(20) NOT NULL);
CREATE TABLE store (store_id SERIAL PRIMARY KEY, city TEXT NOT NULL);
CREATE TABLE customer (customer_id SERIAL PRIMARY KEY, store_id INTEGER NOT NULL REFERENCES store, first_name TEXT NOT NULL, email TEXT UNIQUE);
CREATE TABLE film (film_id SERIAL PRIMARY KEY, title TEXT NOT NULL, description TEXT, release_year INTEGER,
    language_id INTEGER NOT NULL REFERENCES language, rental_duration SMALLINT NOT NULL DEFAULT 3, rental_rate NUMERIC(4,2) NOT NULL DEFAULT 4.99,
    length SMALLINT, replacement_cost NUMERIC(5,2) NOT NULL DEFAULT 19.99, rating mpaa_rating DEFAULT 'G', last_update TIMESTAMP NOT NULL DEFAULT now());
CREATE TABLE inventory (inventory_id SERIAL PRIMARY KEY, film_id INTEGER NOT NULL REFERENCES film, store_id INTEGER NOT NULL REFERENCES store);
CREATE TABLE rental (rental_id SERIAL PRIMARY KEY, inventory_id INTEGER NOT NULL REFERENCES inventory, customer_id INTEGER NOT NULL REFERENCES customer,
    rental_date TIMESTAMP NOT NULL, return_date TIMESTAMP, CHECK (return_date >= rental_date));
CREATE TABLE payment (payment_id SERIAL PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customer, rental_id INTEGER NOT NULL REFERENCES rental,
    amount NUMERIC(5,2) NOT NULL CHECK (amount >= 0));
CREATE FUNCTION touched() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.last_update = now(); RETURN NEW; END';
CREATE TRIGGER last_updated BEFORE UPDATE ON film FOR EACH ROW EXECUTE FUNCTION touched();
INSERT INTO language (name) VALUES ('English'), ('Italian');
INSERT INTO store (city) VALUES ('Lethbridge'), ('Woodridge');
INSERT INTO customer (store_id, first_name, email) SELECT 1 + n % 2, 'Name ' || n, n || '@example.org' FROM generate_series(1, 6) n;
INSERT INTO film (title, description, release_year, language_id, rental_rate, length, replacement_cost, rating, last_update)
    SELECT 'Film ' || n, 'Story ' || n, 2006, 1 + n % 2, (ARRAY[0.99, 2.99, 4.99])[1 + n % 3], 80 + 5 * n, 20.99 + n % 10,
    (ARRAY['G', 'PG', 'PG-13', 'R'])[1 + n % 4]::mpaa_rating, '2020-01-01' FROM generate_series(1, 18) n;
INSERT INTO inventory (film_id, store_id) SELECT 1 + n % 18, 1 + n % 2 FROM generate_series(1, 30) n;
INSERT INTO rental (inventory_id, customer_id, rental_date, return_date) SELECT n, 1 + n % 6, '2020-02-01', '2020-02-04' FROM generate_series(1, 12) n;
INSERT INTO payment (customer_id, rental_id, amount) SELECT 1 + n % 6, n, 2.99 FROM generate_series(1, 12) n;
