CREATE MATERIALIZED VIEW employees.exec_department_summary AS
SELECT d.dept_name AS department_name, count(de.employee_id)::int AS total_employees, avg(s.amount)::decimal AS avg_salary,
    coalesce(sum(s.amount), 0)::bigint AS total_payroll, concat(m.first_name, ' ', m.last_name) AS manager_name
FROM employees.department d
LEFT JOIN employees.department_employee de ON de.department_id = d.id AND de.to_date = '9999-01-01'
LEFT JOIN employees.salary s ON s.employee_id = de.employee_id AND s.to_date = '9999-01-01'
LEFT JOIN employees.department_manager dm ON dm.department_id = d.id AND dm.to_date = '9999-01-01'
LEFT JOIN employees.employee m ON m.id = dm.employee_id GROUP BY d.id, d.dept_name, m.id ORDER BY 1;
