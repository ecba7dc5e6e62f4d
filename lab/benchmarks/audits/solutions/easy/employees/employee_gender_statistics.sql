CREATE TABLE employees.gender_statistics (gender VARCHAR, total_employees INTEGER, current_employees INTEGER, percentage_of_workforce DECIMAL);
INSERT INTO employees.gender_statistics SELECT gender, count(*), count(s.employee_id),
    count(s.employee_id)::decimal / sum(count(s.employee_id)) OVER () * 100
FROM employees.employee e LEFT JOIN employees.salary s ON s.employee_id = e.id AND s.to_date = '9999-01-01' GROUP BY 1;
