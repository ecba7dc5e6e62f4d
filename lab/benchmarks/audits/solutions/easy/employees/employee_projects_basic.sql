CREATE TABLE employees.employee_projects (project_id SERIAL PRIMARY KEY, project_name VARCHAR(100) NOT NULL, start_date DATE NOT NULL,
    end_date DATE, budget DECIMAL(10,2), status VARCHAR(20) DEFAULT 'active');
INSERT INTO employees.employee_projects (project_name, start_date, end_date, budget) VALUES
    ('Database Modernization', '2024-01-15', '2024-06-30', 250000.00), ('Employee Portal Upgrade', '2024-02-01', '2024-05-15', 180000.00),
    ('HR Analytics Dashboard', '2023-11-01', '2024-01-31', 120000.00);
