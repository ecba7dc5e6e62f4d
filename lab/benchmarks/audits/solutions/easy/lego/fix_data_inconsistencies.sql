CREATE TEMPORARY TABLE correct_counts AS SELECT s.set_num, coalesce(p.parts, 0) AS actual_parts FROM lego_sets s LEFT JOIN (
    SELECT i.set_num, sum(quantity)::int AS parts FROM lego_inventories i JOIN lego_inventory_parts p ON p.inventory_id = i.id AND NOT is_spare
    WHERE i.version = (SELECT max(version) FROM lego_inventories o WHERE o.set_num = i.set_num) GROUP BY 1) p USING (set_num);
UPDATE lego_sets s SET num_parts = actual_parts FROM correct_counts c WHERE c.set_num = s.set_num AND num_parts <> actual_parts;
