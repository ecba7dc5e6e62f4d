INSERT INTO film (title, description, release_year, language_id, rental_duration, rental_rate, length, replacement_cost, rating) VALUES
('Data Science Adventures', 'A thrilling journey through machine learning algorithms', 2024, 1, 5, 3.99, 120, 15.99, 'PG-13'),
('Cloud Computing Chronicles', 'Exploring the world of distributed systems', 2024, 1, 7, 4.99, 135, 18.99, 'PG');
INSERT INTO inventory (film_id, store_id) SELECT film_id, store FROM film, unnest(ARRAY[1, 1, 1, 2, 2]) store
    WHERE title IN ('Data Science Adventures', 'Cloud Computing Chronicles');
UPDATE film SET rental_rate = rental_rate * 1.1 WHERE rating = 'PG-13';
CREATE TABLE available_films (film_id INTEGER PRIMARY KEY, title VARCHAR(255) NOT NULL, rental_rate NUMERIC(4,2) NOT NULL, length SMALLINT);
INSERT INTO available_films SELECT film_id, title, rental_rate, length FROM film f
    WHERE rental_rate BETWEEN 3.00 AND 5.00 AND length > 100
    AND EXISTS (SELECT 1 FROM inventory i WHERE i.film_id = f.film_id AND i.store_id = 1);
DELETE FROM inventory i USING film f WHERE f.film_id = i.film_id AND f.replacement_cost > 25 AND f.rental_rate < 1
    AND NOT EXISTS (SELECT 1 FROM rental r WHERE r.inventory_id = i.inventory_id);
CREATE TABLE film_inventory_summary (title VARCHAR(255) NOT NULL, rental_rate NUMERIC(4,2) NOT NULL, total_inventory INTEGER NOT NULL,
    store1_count INTEGER NOT NULL, store2_count INTEGER NOT NULL);
INSERT INTO film_inventory_summary SELECT f.title, f.rental_rate, count(*), count(*) FILTER (WHERE store_id = 1),
    count(*) FILTER (WHERE store_id = 2) FROM film f JOIN inventory i USING (film_id) GROUP BY f.film_id ORDER BY 3 DESC, 1;
