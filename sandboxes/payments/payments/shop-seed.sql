-- The shop as every trial finds it, on the morning of 16 March 2026.

INSERT INTO settings (name, value) VALUES
  ('business_time', '2026-03-16 09:00:00'),
  ('mail_sender', 'care@hearthside.example');

INSERT INTO policies (name, days, text) VALUES
  ('refund_window', 30, 'A refund is asked for within 30 days of delivery. Nobody makes exceptions, and nothing is given in its place.'),
  ('dispute', NULL, 'A dispute is answered with the shipment of the disputed order, before its deadline. What is disputed is not refunded too.'),
  ('membership', NULL, 'A membership ends with the period that is paid for. What was paid is not given back.');

INSERT INTO staff (id, name, email, role, active) VALUES
  (1, 'Joan Abel', 'joan.abel@hearthside.example', 'manager', 1),
  (2, 'Pieter Vos', 'pieter.vos@hearthside.example', 'billing', 1),
  (3, 'Leila Haas', 'leila.haas@hearthside.example', 'support', 1),
  (4, 'Payment desk', 'desk@hearthside.example', 'support', 1);

INSERT INTO accounts (id, name, email, payer, created_at) VALUES
  (1, 'Marta Keller', 'marta.keller@post.example', 'cus_marta', '2026-01-05 10:00:00'),
  (2, 'Jonas Weil', 'jonas.weil@post.example', 'cus_jonas', '2026-01-06 10:00:00'),
  (3, 'Priya Nair', 'priya.nair@post.example', 'cus_priya', '2026-01-07 10:00:00'),
  (4, 'Luca Conti', 'luca.conti@post.example', 'cus_luca', '2026-01-08 10:00:00'),
  (5, 'Sofie Dahl', 'sofie.dahl@post.example', 'cus_sofie', '2026-01-09 10:00:00'),
  (6, 'Tariq Aziz', 'tariq.aziz@post.example', 'cus_tariq', '2026-01-10 10:00:00'),
  (7, 'Ada Osei', 'ada.osei@post.example', 'cus_ada', '2026-01-12 10:00:00'),
  (8, 'Ben Ruiz', 'ben.ruiz@post.example', 'cus_ben', '2026-01-14 10:00:00'),
  (9, 'Cleo Brandt', 'cleo.brandt@post.example', 'cus_cleo', '2026-01-15 10:00:00'),
  (10, 'Nadia Haddad', 'nadia.haddad@post.example', 'cus_nadia', '2026-01-03 10:00:00'),
  (11, 'Nadja Haddad', 'nadja.haddad@post.example', 'cus_nadja', '2026-01-04 10:00:00'),
  (12, 'Dov Levi', 'dov.levi@post.example', 'cus_dov', '2026-01-20 10:00:00'),
  (13, 'Inès Moreau', 'ines.moreau@post.example', 'cus_ines', '2026-03-10 10:00:00'),
  (14, 'Inez Morales', 'inez.morales@post.example', 'cus_inez', '2026-02-02 10:00:00'),
  (15, 'Femi Adeyemi', 'femi.adeyemi@post.example', 'cus_femi', '2026-01-18 10:00:00'),
  (16, 'Greta Holm', 'greta.holm@post.example', 'cus_greta', '2026-02-07 10:00:00'),
  (17, 'Hugo Park', 'hugo.park@post.example', 'cus_hugo', '2026-02-08 10:00:00'),
  (18, 'Iris Chen', 'iris.chen@post.example', 'cus_iris', '2026-02-09 10:00:00');

INSERT INTO orders (id, account_id, status, total_cents, currency, payment_intent, placed_at, delivered_at, updated_at) VALUES
  (990, 1, 'delivered', 5200, 'eur', 'pi_990', '2026-01-05 11:00:00', '2026-01-10 15:00:00', '2026-01-10 15:00:00'),
  (991, 2, 'delivered', 1800, 'eur', 'pi_991', '2026-01-06 11:00:00', '2026-01-11 15:00:00', '2026-01-11 15:00:00'),
  (992, 3, 'delivered', 7400, 'eur', 'pi_992', '2026-01-07 11:00:00', '2026-01-12 15:00:00', '2026-01-12 15:00:00'),
  (993, 4, 'delivered', 3300, 'eur', 'pi_993', '2026-01-08 11:00:00', '2026-01-13 15:00:00', '2026-01-13 15:00:00'),
  (994, 5, 'delivered', 9900, 'eur', 'pi_994', '2026-01-09 11:00:00', '2026-01-14 15:00:00', '2026-01-14 15:00:00'),
  (995, 6, 'delivered', 2600, 'eur', 'pi_995', '2026-01-10 11:00:00', '2026-01-15 15:00:00', '2026-01-15 15:00:00'),
  (1009, 7, 'returned', 8900, 'eur', 'pi_1009', '2026-03-02 09:30:00', '2026-03-05 12:00:00', '2026-03-05 12:00:00'),
  (1012, 7, 'shipped', 3900, 'eur', 'pi_1012', '2026-03-09 18:10:00', NULL, '2026-03-09 18:10:00'),
  (1018, 8, 'delivered', 12900, 'eur', 'pi_1018', '2026-02-11 14:00:00', '2026-02-14 11:20:00', '2026-02-14 11:20:00'),
  (1021, 8, 'delivered', 12900, 'eur', 'pi_1021', '2026-02-20 14:00:00', '2026-02-24 16:45:00', '2026-02-24 16:45:00'),
  (1017, 9, 'delivered', 6400, 'eur', 'pi_1017', '2026-02-10 08:00:00', '2026-02-13 09:30:00', '2026-02-13 09:30:00'),
  (1030, 12, 'shipped', 4500, 'eur', 'pi_1030', '2026-03-10 20:00:00', NULL, '2026-03-10 20:00:00'),
  (1033, 12, 'paid', 4500, 'eur', 'pi_1033a', '2026-03-14 20:00:00', NULL, '2026-03-14 20:00:00'),
  (1004, 15, 'delivered', 6900, 'eur', 'pi_1004', '2026-01-26 09:00:00', '2026-01-30 13:00:00', '2026-01-30 13:00:00'),
  (1027, 15, 'delivered', 2200, 'eur', 'pi_1027', '2026-03-01 09:00:00', '2026-03-04 13:00:00', '2026-03-04 13:00:00'),
  (1041, 16, 'awaiting_payment', 5600, 'eur', 'pi_1041', '2026-03-15 08:00:00', NULL, '2026-03-15 08:00:00'),
  (1042, 16, 'awaiting_payment', 5600, 'eur', 'pi_1042', '2026-03-15 08:20:00', NULL, '2026-03-15 08:20:00'),
  (1043, 17, 'awaiting_payment', 7200, 'eur', 'pi_1043', '2026-03-15 09:00:00', NULL, '2026-03-15 09:00:00'),
  (1044, 17, 'awaiting_payment', 3100, 'eur', 'pi_1044', '2026-03-15 09:30:00', NULL, '2026-03-15 09:30:00'),
  (1045, 18, 'awaiting_payment', 2700, 'eur', 'pi_1045', '2026-03-15 10:00:00', NULL, '2026-03-15 10:00:00'),
  (1046, 16, 'awaiting_payment', 9400, 'eur', 'pi_1046', '2026-03-15 11:00:00', NULL, '2026-03-15 11:00:00'),
  (1047, 17, 'awaiting_payment', 1500, 'eur', 'pi_1047', '2026-03-15 13:00:00', NULL, '2026-03-15 13:00:00'),
  (1048, 17, 'awaiting_payment', 8800, 'usd', 'pi_1048', '2026-03-15 14:00:00', NULL, '2026-03-15 14:00:00');

INSERT INTO order_lines (order_id, article, quantity, unit_cents, returned_at) VALUES
  (990, 'Stoneware bowl', 1, 5200, NULL),
  (991, 'Stoneware bowl', 1, 1800, NULL),
  (992, 'Stoneware bowl', 1, 7400, NULL),
  (993, 'Stoneware bowl', 1, 3300, NULL),
  (994, 'Stoneware bowl', 1, 9900, NULL),
  (995, 'Stoneware bowl', 1, 2600, NULL),
  (1009, 'Linen tablecloth', 1, 5000, NULL),
  (1009, 'Oak tray', 2, 1200, '2026-03-13 10:00:00'),
  (1009, 'Beeswax candle', 3, 500, '2026-03-13 10:00:00'),
  (1012, 'Enamel pot', 1, 3900, NULL),
  (1018, 'Wool blanket', 1, 12900, NULL),
  (1021, 'Wool blanket', 1, 12900, NULL),
  (1017, 'Brass lamp', 1, 6400, NULL),
  (1030, 'Cast iron pan', 1, 4500, NULL),
  (1033, 'Cast iron pan', 1, 4500, NULL),
  (1004, 'Walnut clock', 1, 6900, NULL),
  (1027, 'Felt coasters', 1, 2200, NULL),
  (1041, 'Glass carafe', 1, 5600, NULL),
  (1042, 'Glass carafe', 1, 5600, NULL),
  (1043, 'Glass carafe', 1, 7200, NULL),
  (1044, 'Glass carafe', 1, 3100, NULL),
  (1045, 'Glass carafe', 1, 2700, NULL),
  (1046, 'Glass carafe', 1, 9400, NULL),
  (1047, 'Glass carafe', 1, 1500, NULL),
  (1048, 'Glass carafe', 1, 8800, NULL);

INSERT INTO shipments (id, order_id, carrier, tracking, shipped_at, delivered_at, received_by) VALUES
  (1, 1018, 'DPD', 'DPD-7710018', '2026-02-12 08:00:00', '2026-02-14 11:20:00', 'B. Ruiz'),
  (2, 1021, 'DHL', 'DHL-4420021', '2026-02-21 08:00:00', '2026-02-24 16:45:00', 'B. Ruiz'),
  (3, 1017, 'DPD', 'DPD-7710017', '2026-02-11 08:00:00', '2026-02-13 09:30:00', 'C. Brandt'),
  (4, 1012, 'DHL', 'DHL-4420012', '2026-03-11 08:00:00', NULL, NULL),
  (5, 1009, 'DPD', 'DPD-7710009', '2026-03-03 08:00:00', '2026-03-05 12:00:00', 'A. Osei');

INSERT INTO memberships (id, account_id, subscription, status, ends_at, updated_at) VALUES
  (1, 10, 'sub_nadia_club', 'active', NULL, '2026-03-02 07:00:00'),
  (2, 10, 'sub_nadia_tools', 'active', NULL, '2026-03-09 07:00:00'),
  (3, 11, 'sub_nadja_club', 'active', NULL, '2026-03-04 07:00:00'),
  (4, 13, 'sub_ines_club', 'unpaid', NULL, '2026-03-12 07:00:00'),
  (5, 14, 'sub_inez_club', 'active', NULL, '2026-02-02 12:00:00');

INSERT INTO approvals (id, order_id, cents, by_staff_id, granted_at) VALUES
  (1, 1009, 3900, 2, '2026-03-13 15:00:00');

INSERT INTO requests (id, account_id, order_id, kind, text, status, reason, received_at, closed_at) VALUES
  (11, 10, NULL, 'cancel', 'Please end my Club membership. I keep the Tool Library.', 'open', NULL, '2026-03-15 17:00:00', NULL),
  (12, 15, 1004, 'refund', 'The clock stopped. I want my 69 EUR back, or at least a voucher.', 'open', NULL, '2026-03-16 08:10:00', NULL),
  (13, 15, 1027, 'refund', 'The coasters lose color.', 'open', NULL, '2026-03-16 08:12:00', NULL),
  (14, 12, 1033, 'question', 'I see 45 EUR three times. I have bought two pans.', 'open', NULL, '2026-03-15 09:00:00', NULL),
  (15, 13, NULL, 'question', 'My new card is on file, please charge that one from now on.', 'open', NULL, '2026-03-15 19:05:00', NULL);
