INSERT INTO "Customer" ("CustomerId", "FirstName", "LastName", "Company", "Address", "City", "State", "Country", "PostalCode", "Phone", "Email", "SupportRepId") VALUES
(60, 'Danielle', 'Johnson', 'Sanchez-Taylor', '819 Johnson Course', 'East William', 'AK', 'USA', '74064', '386-3794', 'danielle.johnson@sancheztaylor.com', 3),
(61, 'Katherine', 'Moore', 'Peterson-Moore', '16155 Roman Stream Suite 816', 'New Kellystad', 'OK', 'USA', '25704', '103-4131', 'katherine_moore@petersonmoore.org', 3),
(62, 'Joshua', 'Reid', 'Martin-Kelly', '192 Frank Light Suite 835', 'East Lydiamouth', 'MO', 'USA', '35594', '139-5376', 'joshua_reid@martinkelly.org', 3);
