UPDATE "Employee" SET "Title" = 'CEO' WHERE "EmployeeId" = 1;
UPDATE "Employee" SET "Phone" = '+1 (403) 555-9999' WHERE "EmployeeId" = 2;
UPDATE "Employee" SET "Title" = 'IT Specialist' WHERE "Title" = 'IT Staff';
