-- A shelf of sets in the shape of the tables that MCPMark's `lego` tasks read; two counts are wrong.
CREATE TABLE lego_themes (id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL, parent_id INTEGER REFERENCES lego_themes(id));
CREATE TABLE lego_colors (id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL, rgb VARCHAR(6) NOT NULL, is_trans BOOLEAN NOT NULL);
CREATE TABLE lego_parts (part_num VARCHAR(255) PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE lego_sets (set_num VARCHAR(255) PRIMARY KEY, name VARCHAR(255) NOT NULL, year INTEGER,
    theme_id INTEGER REFERENCES lego_themes(id), num_parts INTEGER);
CREATE TABLE lego_inventories (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, set_num VARCHAR(255) NOT NULL REFERENCES lego_sets(set_num));
CREATE TABLE lego_inventory_parts (inventory_id INTEGER NOT NULL REFERENCES lego_inventories(id),
    part_num VARCHAR(255) NOT NULL REFERENCES lego_parts(part_num), color_id INTEGER NOT NULL REFERENCES lego_colors(id),
    quantity INTEGER NOT NULL CHECK (quantity > 0), is_spare BOOLEAN NOT NULL);
INSERT INTO lego_themes VALUES (1, 'Town', NULL), (2, 'Police', 1), (3, 'Space', NULL);
INSERT INTO lego_colors VALUES (0, 'Black', '05131D', false), (1, 'Blue', '0055BF', false), (47, 'Trans-Clear', 'FCFCFC', true);
INSERT INTO lego_parts VALUES ('3001', 'Brick 2 x 4'), ('3003', 'Brick 2 x 2'), ('3020', 'Plate 2 x 4');
INSERT INTO lego_sets VALUES ('001-1', 'Gears', 1965, 1, 7), ('002-1', 'Patrol', 1978, 2, 4), ('003-1', 'Rocket', 1980, 3, 9),
    ('004-1', 'Poster', 1981, 3, 0);
INSERT INTO lego_inventories VALUES (1, 1, '001-1'), (2, 1, '002-1'), (3, 1, '003-1'), (4, 2, '003-1');
INSERT INTO lego_inventory_parts VALUES (1, '3001', 0, 4, false), (1, '3003', 1, 3, false), (1, '3020', 0, 1, true),
    (2, '3001', 1, 6, false), (3, '3020', 0, 9, false), (4, '3001', 0, 5, false), (4, '3003', 47, 2, false);
