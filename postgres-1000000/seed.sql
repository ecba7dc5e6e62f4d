
INSERT INTO orders SELECT 2 * i, h % 50000, h % 9 + 1, (h % 1000) / 8.0,
  CASE WHEN h % 5 = 0 THEN NULL ELSE (h % 7) / 7.0::float8 END,
  (h % 90000 + 100) / 100.0,
  (ARRAY['new', 'paid', 'packed', 'shipped', 'returned'])[1 + h % 5],
  'customer' || (h % 50000) || '@example.org', h % 3 = 0,
  to_timestamp(1767225600 + h / 1000.0)
FROM (SELECT i, (i * 2654435761) % 4294967296 AS h
  FROM generate_series(0, 499999::bigint) AS i) AS m;

INSERT INTO orders SELECT 2 * i, h % 50000, h % 9 + 1, (h % 1000) / 8.0,
  CASE WHEN h % 5 = 0 THEN NULL ELSE (h % 7) / 7.0::float8 END,
  (h % 90000 + 100) / 100.0,
  (ARRAY['new', 'paid', 'packed', 'shipped', 'returned'])[1 + h % 5],
  'customer' || (h % 50000) || '@example.org', h % 3 = 0,
  to_timestamp(1767225600 + h / 1000.0)
FROM (SELECT i, (i * 2654435761) % 4294967296 AS h
  FROM generate_series(500000, 999999::bigint) AS i) AS m;
