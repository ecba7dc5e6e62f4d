CREATE TABLE employees.hiring_year_summary (hire_year INTEGER, employees_hired INTEGER, still_employed INTEGER, retention_rate DECIMAL);
INSERT INTO employees.hiring_year_summary SELECT extract(year FROM hire_date)::int, count(*), count(s.employee_id),
    count(s.employee_id)::decimal / count(*) * 100
FROM employees.employee e LEFT JOIN employees.salary s ON s.employee_id = e.id AND s.to_date = '9999-01-01' GROUP BY 1 ORDER BY 1;
