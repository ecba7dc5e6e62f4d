-- A company of twelve in the shape of the schema that MCPMark's `employees` tasks read.
CREATE SCHEMA employees;
SET search_path = employees;
CREATE TABLE department (id CHAR(4) PRIMARY KEY, dept_name VARCHAR(40) NOT NULL UNIQUE);
CREATE TABLE employee (id BIGSERIAL PRIMARY KEY, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL,
    last_name VARCHAR(16) NOT NULL, gender CHAR(1) NOT NULL CHECK (gender IN ('M', 'F')), hire_date DATE NOT NULL);
CREATE TABLE department_employee (employee_id BIGINT REFERENCES employee(id) ON DELETE CASCADE,
    department_id CHAR(4) REFERENCES department(id) ON DELETE CASCADE, from_date DATE NOT NULL, to_date DATE NOT NULL,
    PRIMARY KEY (employee_id, department_id));
CREATE TABLE department_manager (employee_id BIGINT REFERENCES employee(id), department_id CHAR(4) REFERENCES department(id),
    from_date DATE NOT NULL, to_date DATE NOT NULL, PRIMARY KEY (employee_id, department_id));
CREATE TABLE salary (employee_id BIGINT REFERENCES employee(id), amount BIGINT NOT NULL CHECK (amount > 0),
    from_date DATE NOT NULL, to_date DATE NOT NULL, PRIMARY KEY (employee_id, from_date));
CREATE TABLE title (employee_id BIGINT REFERENCES employee(id), title VARCHAR(50) NOT NULL, from_date DATE NOT NULL,
    to_date DATE, PRIMARY KEY (employee_id, title, from_date));
INSERT INTO department VALUES ('d001', 'Marketing'), ('d002', 'Finance'), ('d003', 'Development');
INSERT INTO employee SELECT n, DATE '1960-01-01' + 200 * n::int, 'First' || n, 'Last' || n,
    CASE WHEN n % 3 = 0 THEN 'F' ELSE 'M' END, DATE '1985-06-01' + 150 * n::int FROM generate_series(1, 12) n;
SELECT setval('employee_id_seq', 12);
INSERT INTO department_employee SELECT n, 'd00' || 1 + n % 3, DATE '1990-01-01',
    CASE WHEN n IN (4, 9) THEN DATE '2000-01-01' ELSE DATE '9999-01-01' END FROM generate_series(1, 12) n;
INSERT INTO department_manager VALUES (3, 'd001', '1995-01-01', '9999-01-01'), (1, 'd002', '1995-01-01', '9999-01-01'),
    (2, 'd003', '1995-01-01', '9999-01-01');
INSERT INTO salary SELECT n, 40000 + 1000 * n, DATE '1990-01-01', DATE '1995-01-01' FROM generate_series(1, 12) n;
INSERT INTO salary SELECT n, 60000 + 1000 * n, DATE '1995-01-01',
    CASE WHEN n IN (4, 9) THEN DATE '2000-01-01' ELSE DATE '9999-01-01' END FROM generate_series(1, 12) n;
INSERT INTO title SELECT n, CASE WHEN n % 2 = 0 THEN 'Engineer' ELSE 'Staff' END, DATE '1990-01-01', NULL
    FROM generate_series(1, 12) n;
